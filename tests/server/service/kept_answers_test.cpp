#include "server/service/kept_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <random>

namespace nibble::server {
namespace {

using namespace std::chrono_literals;

std::string event(const std::string& text) { return "data: " + text + "\n\n"; }

struct Store {
  explicit Store(size_t max_bytes, std::chrono::milliseconds time = 1h) : kept({max_bytes, time}) {}
  ~Store() { kept.clear(); }

  std::shared_ptr<KeptAnswer> add(const std::string& id, KeptAnswer::Kind kind = {}) {
    return kept.add(io.get_executor(), {"", id}, std::move(kind));
  }
  void run_for(std::chrono::milliseconds time) {
    io.restart();
    io.run_for(time);
  }

  boost::asio::io_context io;
  KeptAnswers kept;
};

TEST(KeptAnswers, EventsAreNumberedAndReadFromAnyOfThem) {
  Store store(1 << 20);
  const auto answer = store.add("a", {.has_id_lines = true});
  answer->append(event("one") + ":\n\n" + event("two"));
  answer->append(event("three"));
  EXPECT_EQ(answer->next(), 3u);
  size_t number = 1;
  EXPECT_EQ(answer->read(number, 1 << 20), "id: 1\ndata: two\n\nid: 2\ndata: three\n\n");
  EXPECT_EQ(number, 3u);
  number = 0;
  EXPECT_EQ(answer->read(number, 1), "id: 0\ndata: one\n\n");
  EXPECT_EQ(number, 1u);
}

TEST(KeptAnswers, ACommentBeginsAnAnswerAndIsNotKept) {
  Store store(1 << 20);
  const auto answer = store.add("a");
  EXPECT_FALSE(answer->has_begun());
  answer->append(":\n\n");
  EXPECT_TRUE(answer->has_begun());
  EXPECT_EQ(answer->next(), 0u);
}

TEST(KeptAnswers, NoOtherOwnerFindsAnAnswer) {
  Store store(1 << 20);
  store.kept.add(store.io.get_executor(), {"alice", "a"}, {});
  EXPECT_TRUE(store.kept.find({"alice", "a"}));
  EXPECT_FALSE(store.kept.find({"bob", "a"}));
  EXPECT_FALSE(store.kept.erase({"", "a"}));
  EXPECT_TRUE(store.kept.erase({"alice", "a"}));
}

TEST(KeptAnswers, TheBoundHoldsForAnyAnswersAndRunningOnesKeepTheirNewestEvents) {
  constexpr size_t kMost{20'000};
  Store store(kMost);
  std::mt19937 random(7);
  std::vector<std::shared_ptr<KeptAnswer>> running;
  for (int i = 0; i < 3; ++i) running.push_back(store.add("running" + std::to_string(i)));
  for (int i = 0; i < 2000; ++i) {
    const auto& answer = running[random() % running.size()];
    answer->append(event(std::to_string(answer->next()) + std::string(random() % 300, 'x')));
    ASSERT_LE(store.kept.num_bytes(), kMost);
    if (random() % 20 == 0) {
      const auto ended = store.add("ended" + std::to_string(i));
      ended->append(event(std::string(random() % 1000, 'y')));
      ended->end(200);
      ASSERT_LE(store.kept.num_bytes(), kMost);
    }
  }
  for (const auto& answer : running) {
    ASSERT_LT(answer->first(), answer->next());
    EXPECT_GT(answer->first(), 0u);
    size_t number = answer->next() - 1;
    EXPECT_THAT(answer->read(number, 1), testing::StartsWith("data: " + std::to_string(answer->next() - 1)));
  }
}

TEST(KeptAnswers, TheOldestEndedAnswersMakeRoomBeforeRunningOnesLoseEvents) {
  Store store(20'000);
  const auto running = store.add("running");
  running->append(event(std::string(9000, 'x')));
  for (const char* id : {"old", "new"}) {
    const auto ended = store.add(id);
    ended->append(event(std::string(4000, 'y')));
    ended->end(200);
  }
  running->append(event(std::string(1500, 'x')));
  EXPECT_FALSE(store.kept.find({"", "old"}));
  EXPECT_TRUE(store.kept.find({"", "new"}));
  EXPECT_EQ(running->first(), 0u);
}

TEST(KeptAnswers, EventsAreKeptAboveTheBoundUntilEveryReaderHasReceivedThem) {
  constexpr size_t kMost{20'000};
  Store store(kMost);
  const auto answer = store.add("read");
  KeptAnswer::Reader fast(answer, 0), slow(answer, 0);
  for (int i = 0; i < 300; ++i) {
    answer->append(event(std::to_string(i) + std::string(200, 'x')));
    fast.advance(answer->next());
  }
  ASSERT_EQ(answer->first(), 0u);
  ASSERT_GT(store.kept.num_bytes(), kMost);
  slow.advance(5);
  EXPECT_EQ(answer->first(), 5u) << "what both have received goes, while the store is above the bound";
  answer->end(200);
  EXPECT_EQ(answer->first(), 5u);
  slow.advance(answer->next());
  EXPECT_LE(store.kept.num_bytes(), kMost);
  EXPECT_GT(answer->next() - answer->first(), 20u) << "the newest are kept up to the bound";
}

TEST(KeptAnswers, AReaderOfOneAnswerDoesNotHoldTheEventsOfAnother) {
  constexpr size_t kMost{20'000};
  Store store(kMost);
  const auto read = store.add("read"), unread = store.add("unread");
  const KeptAnswer::Reader reader(read, 0);
  read->append(event(std::string(10'000, 'x')));
  for (int i = 0; i < 100; ++i) unread->append(event(std::string(1000, 'y')));
  EXPECT_LE(store.kept.num_bytes(), kMost);
  EXPECT_EQ(read->first(), 0u);
  EXPECT_GT(unread->first(), 0u);
}

// A writer that waits, because the store is full and the reader of its answer has received nothing.
struct WaitingWriter {
  WaitingWriter() {
    reader.emplace(answer, 0);
    boost::asio::co_spawn(store.io, write(), boost::asio::detached);
    store.io.poll();
  }
  boost::asio::awaitable<void> write() {
    for (; num_written < 3; ++num_written) {
      answer->append(event(std::string(2000, 'x')));
      co_await answer->wait_for_readers();
    }
  }
  int written() {
    store.io.restart();
    store.io.poll();
    return num_written;
  }

  Store store{1000};
  std::shared_ptr<KeptAnswer> answer{store.add("a")};
  std::optional<KeptAnswer::Reader> reader;
  int num_written{0};
};

TEST(KeptAnswers, AWriterWaitsInAFullStoreUntilItsReaderHasReceivedAllEvents) {
  WaitingWriter writer;
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(writer.written(), static_cast<int>(i));
    ASSERT_EQ(writer.answer->first(), i);
    ASSERT_EQ(writer.answer->next(), i + 1) << "one event above the bound";
    writer.reader->advance(i + 1);
  }
  EXPECT_EQ(writer.written(), 3);
}

TEST(KeptAnswers, AWriterGoesOnWhenItsReaderLeavesOrItsAnswerIsStoppedOrForgotten) {
  const std::vector<std::function<void(WaitingWriter&)>> ways{
      [](WaitingWriter& writer) { writer.reader.reset(); },
      [](WaitingWriter& writer) { writer.answer->stop_waiting(); },
      [](WaitingWriter& writer) {
        writer.store.kept.erase({"", "a"});
      },
  };
  for (const auto& way : ways) {
    WaitingWriter writer;
    ASSERT_EQ(writer.written(), 0);
    way(writer);
    EXPECT_EQ(writer.written(), 3);
  }
}

TEST(KeptAnswers, AnEndedAnswerIsDroppedAfterItsTimeUnlessItIsRead) {
  Store store(1 << 20, 20ms);
  const auto read = store.add("read");
  {
    const KeptAnswer::Reader reader(read, 0);
    for (const char* id : {"unread", "read"}) {
      const auto answer = std::string(id) == "read" ? read : store.add(id);
      answer->append(event("x"));
      answer->end(200);
    }
    store.run_for(100ms);
    EXPECT_FALSE(store.kept.find({"", "unread"}));
    EXPECT_TRUE(store.kept.find({"", "read"}));
  }
  store.run_for(100ms);
  EXPECT_FALSE(store.kept.find({"", "read"}));
  EXPECT_EQ(store.kept.num_bytes(), 0u);
}

TEST(KeptAnswers, AnAnswerThatIsBrokenOffEndsInAnErrorAndExpires) {
  Store store(1 << 20, 20ms);
  const auto broken = store.add("broken"), ended = store.add("ended");
  for (const auto& answer : {broken, ended}) answer->append(event("one"));
  ended->end(200);
  for (const auto& answer : {broken, ended}) answer->break_off();
  EXPECT_TRUE(broken->has_ended() && broken->is_broken_off());
  EXPECT_EQ(broken->status(), 500);
  EXPECT_FALSE(ended->is_broken_off());
  EXPECT_EQ(ended->status(), 200);
  store.run_for(100ms);
  EXPECT_EQ(store.kept.num_answers(), 0u);
}

TEST(KeptAnswers, ARunningAnswerThatNobodyReadsIsStoppedOnlyIfItsKindSaysSo) {
  Store store(1 << 20, 20ms);
  int num_stopped = 0;
  const auto stop = [&] { ++num_stopped; };
  {
    const KeptAnswer::Reader chat(store.add("chat", {.ends_unread = true, .stop = stop}), 0);
    const KeptAnswer::Reader background(store.add("background", {.stop = stop}), 0);
  }
  store.run_for(100ms);
  EXPECT_EQ(num_stopped, 1);
  EXPECT_FALSE(store.kept.find({"", "chat"}));
  EXPECT_TRUE(store.kept.find({"", "background"}));
}

}  // namespace
}  // namespace nibble::server
