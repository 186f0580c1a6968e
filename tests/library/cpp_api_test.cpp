// Tests the C++ API, which wraps the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "library/nibble.hpp"
#include "tests/folders.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

Model load(const Model::Progress& progress = {}) {
  const Options options{{"context", "1024"}, {"max-sequences", "2"}, {"threads", "2"}, {"temperature", "0"}};
  return Model(source_path("models/tiny-gpt-oss"), options, progress);
}

std::string answer_of(Session& session, const std::string& question) {
  std::string text;
  session.send(question);
  while (const std::optional<Event> event = session.next_event())
    if (event->type == NIBBLE_EVENT_TEXT) text += event->text;
  return text;
}

TEST(LibraryCpp, AModelReportsItsLoadingAndItsSessionsAnswer) {
  std::vector<std::string> tasks;
  Model model = load([&](const char* task, uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    if (done == total) tasks.emplace_back(task);
  });
  EXPECT_THAT(tasks, testing::Contains(HasSubstr("loading ")));
  EXPECT_EQ(model.context(), 1024);
  Session session(model, {{"max-tokens", "200"}});
  EXPECT_EQ(answer_of(session, "What is 17 + 25?"), "17 + 25 = 42.");
  Session moved = std::move(session);
  Model kept = std::move(model);
  EXPECT_GT(moved.count_tokens(), 40u);
  EXPECT_EQ(kept.decode(kept.encode("a <|start|> b")), "a <|start|> b");
  EXPECT_EQ(kept.encode_controls("<|start|>").size(), 1u);
}

TEST(LibraryCpp, AnErrorHasTheStatusAndTheMessage) {
  try {
    Model missing("no/such-model");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), NIBBLE_BAD_INPUT);
    EXPECT_THAT(error.what(), HasSubstr("model 'no/such-model' not found"));
  }
  EXPECT_THROW(Options({{"contxt", "1"}}), Error);
}

TEST(LibraryCpp, ATimeoutLeavesTheAnswerRunningAndCancellingEndsIt) {
  const Model model = load();
  Session session(model);
  session.set_json_schema(
      R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 400, "maxItems": 400})");
  session.send("Go on.");
  int num_timeouts = 0;
  while (num_timeouts == 0 && session.is_running())
    if (!session.next_event(std::chrono::milliseconds(0))) ++num_timeouts;
  ASSERT_TRUE(session.is_running());
  EXPECT_THROW(session.send("x"), Error);
  session.cancel();
  nibble_finish finish{};
  while (const auto event = session.next_event()) finish = event->finish;
  EXPECT_EQ(finish, NIBBLE_FINISH_CANCELLED);
  EXPECT_FALSE(session.is_running());
  EXPECT_EQ(session.next_event(), std::nullopt);
}

}  // namespace
}  // namespace nibble::test
