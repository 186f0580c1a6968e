// Who runs when. The scheduler knows no model and no time, so all of it can be simulated.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace nibble {
namespace {

constexpr RequestId id(int n) { return static_cast<RequestId>(n); }

SchedulerOptions options() {
  return {.max_batch_tokens = 64,
          .max_sequences = 8,
          .num_full_pages = 100,
          .num_sliding_pages = 100,
          .window = 128};
}

std::vector<Slice> run_step(Scheduler& scheduler) {
  const std::vector<Slice> slices = scheduler.next();
  for (const Slice& slice : slices) scheduler.advance(slice);
  return slices;
}
// The part of a request in a step; 0 tokens if it has none.
Slice part_of(const std::vector<Slice>& slices, RequestId request) {
  const auto found =
      std::find_if(slices.begin(), slices.end(), [&](auto& s) { return s.request == request; });
  return found == slices.end() ? Slice{} : *found;
}

TEST(Scheduler, FeedsAPromptInChunksAndThenOneTokenAtATime) {
  Scheduler scheduler(options());
  scheduler.add(id(1), 150, 10);
  const int sizes[] = {64, 64, 22, 1, 1};
  int position = 0;
  for (const int num_tokens : sizes) {
    const std::vector<Slice> slices = run_step(scheduler);
    ASSERT_EQ(slices.size(), 1u);
    EXPECT_EQ(slices[0].first_position, position);
    EXPECT_EQ(slices[0].num_tokens, num_tokens);
    position += num_tokens;
    EXPECT_EQ(slices[0].gives_token, position >= 150);
  }
}

TEST(Scheduler, ALongPromptDoesNotStallARunningChat) {
  Scheduler scheduler(options());
  scheduler.add(id(1), 10, 50);
  run_step(scheduler);
  scheduler.add(id(2), 1000, 10);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 1);   // the chat decodes in this step,
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 63);  // and the prompt takes what is left of the 64
}

TEST(Scheduler, OlderPromptsAreFedFirst) {
  Scheduler scheduler(options());
  scheduler.add(id(1), 50, 1);
  scheduler.add(id(2), 50, 1);
  scheduler.add(id(3), 50, 1);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 50);
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 14);
  EXPECT_EQ(part_of(slices, id(3)).num_tokens, 0);
}

TEST(Scheduler, RunsNoMoreThanMaxSequencesAtOnce) {
  SchedulerOptions two = options();
  two.max_sequences = 2;
  Scheduler scheduler(two);
  for (int n = 1; n <= 3; ++n) scheduler.add(id(n), 5, 5);
  EXPECT_EQ(run_step(scheduler).size(), 2u);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.remove(id(1));
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 5);
}

TEST(Scheduler, NeverRunsMoreSequencesThanAStepHasRows) {
  SchedulerOptions narrow = options();
  narrow.max_batch_tokens = 3;
  Scheduler scheduler(narrow);
  for (int n = 1; n <= 5; ++n) scheduler.add(id(n), 1, 9);
  EXPECT_EQ(run_step(scheduler).size(), 3u);
  EXPECT_EQ(scheduler.num_running(), 3);
}

TEST(Scheduler, AdmitsOnlyWhomThePagesOfTheWorstCaseAreLeftFor) {
  SchedulerOptions small = options();
  small.num_full_pages = 10;
  Scheduler scheduler(small);
  scheduler.add(id(1), 10, 183);  // 192 positions: 6 pages
  scheduler.add(id(2), 10, 120);  // 129: 5 pages
  EXPECT_EQ(run_step(scheduler).size(), 1u);
  EXPECT_EQ(scheduler.full_pool().num_free(), 9);  // promised, not taken
  scheduler.remove(id(1));
  EXPECT_EQ(run_step(scheduler).size(), 1u);
  EXPECT_EQ(scheduler.num_waiting(), 0);
}

TEST(Scheduler, NobodyOvertakesTheHeadOfTheQueue) {
  SchedulerOptions small = options();
  small.num_full_pages = 10;
  Scheduler scheduler(small);
  scheduler.add(id(1), 10, 183);  // 6 pages
  scheduler.add(id(2), 10, 183);  // 6 pages: waits
  scheduler.add(id(3), 10, 10);   // 1 page: would fit, but came later
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 0);
  scheduler.remove(id(2));
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 10);
}

TEST(Scheduler, PagesAreFreeAtOnceWhenASequenceIsRemoved) {
  Scheduler scheduler(options());
  scheduler.add(id(1), 300, 100);
  run_step(scheduler);
  run_step(scheduler);
  EXPECT_EQ(scheduler.full_pool().num_free(), 96);
  scheduler.remove(id(1));
  scheduler.remove(id(1));  // gone already: nothing happens
  scheduler.remove(id(7));
  EXPECT_EQ(scheduler.full_pool().num_free(), 100);
  EXPECT_EQ(scheduler.sliding_pool().num_free(), 100);
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_TRUE(scheduler.next().empty());
}

// Thousands of arrivals, of all lengths, against a cache that is too small for them; some leave early, some are
// cancelled while they wait. What must hold is checked at each step against books that the test keeps itself.
class Simulation {
 public:
  Simulation(const SchedulerOptions& given, unsigned seed)
      : options_(given), scheduler_(given), random_(seed) {}

  void run(int num_requests) {
    for (int n = 0; n < num_requests || !books_.empty();) {
      if (n < num_requests && below(3) == 0) {
        for (int burst = 1 + below(4); burst > 0 && n < num_requests; --burst) add(id(++n));
      }
      if (!books_.empty() && below(40) == 0) remove(std::next(books_.begin(), below(num_here()))->first);
      step();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(scheduler_.is_idle());
    EXPECT_EQ(scheduler_.full_pool().num_free(), options_.num_full_pages);
    EXPECT_EQ(scheduler_.sliding_pool().num_free(), options_.num_sliding_pages);
    EXPECT_GT(num_refused_for_pages_, 0) << "the cache was never short: the simulation shows too little";
  }

 private:
  struct Book {
    int num_prompt, max_output;
    int leaves_after;  // tokens of its answer
    int num_run{0}, num_given{0};
    bool has_begun{false};
    int num_known() const { return num_prompt + num_given; }
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int num_here() const { return static_cast<int>(books_.size()); }

  void add(RequestId request) {
    Book book{};
    book.num_prompt = 1 + (below(4) == 0 ? below(500) : below(60));
    book.max_output = 1 + below(80);
    book.leaves_after = 1 + below(book.max_output);
    books_[request] = book;
    scheduler_.add(request, book.num_prompt, book.max_output);
  }
  void remove(RequestId request) {
    books_.erase(request);
    scheduler_.remove(request);
  }

  void step() {
    const std::vector<Slice> slices = scheduler_.next();
    ASSERT_EQ(slices.empty(), books_.empty());
    int num_rows = 0;
    std::set<RequestId> in_step;
    std::set<PageId> full_pages, sliding_pages;
    size_t num_full_pages = 0, num_sliding_pages = 0;
    for (const Slice& slice : slices) {
      Book& book = books_.at(slice.request);
      book.has_begun = true;
      ASSERT_TRUE(in_step.insert(slice.request).second) << "twice in a step";
      ASSERT_EQ(slice.first_position, book.num_run) << "a position is skipped or run twice";
      ASSERT_GT(slice.num_tokens, 0);
      ASSERT_LE(book.num_run + slice.num_tokens, book.num_known());
      ASSERT_EQ(slice.gives_token, book.num_run + slice.num_tokens == book.num_known());
      const int last = slice.first_position + slice.num_tokens - 1;
      const int first_seen = std::max(0, slice.first_position - options_.window + 1);
      ASSERT_EQ(slice.full.first_page, 0);
      ASSERT_EQ(static_cast<int>(slice.full.pages.size()), last / kPageTokens + 1);
      ASSERT_EQ(slice.sliding.first_page, first_seen / kPageTokens);
      ASSERT_EQ(slice.sliding.first_page + static_cast<int>(slice.sliding.pages.size()),
                last / kPageTokens + 1);
      full_pages.insert(slice.full.pages.begin(), slice.full.pages.end());
      sliding_pages.insert(slice.sliding.pages.begin(), slice.sliding.pages.end());
      num_full_pages += slice.full.pages.size();
      num_sliding_pages += slice.sliding.pages.size();
      num_rows += slice.num_tokens;
    }
    ASSERT_LE(num_rows, options_.max_batch_tokens);
    ASSERT_EQ(full_pages.size(), num_full_pages) << "two sequences share a page";
    ASSERT_EQ(sliding_pages.size(), num_sliding_pages) << "two sequences share a page";

    bool one_waits = false;  // in the order of arrival: who has begun comes before who has not
    for (const auto& [request, book] : books_) {
      if (!book.has_begun && num_rows < options_.max_batch_tokens) one_waits = true;
      ASSERT_FALSE(one_waits && book.has_begun) << "overtaken";
      const int num_rows_given = part_of(slices, request).num_tokens;
      const bool decodes = book.num_run >= book.num_prompt;
      ASSERT_TRUE(!decodes || num_rows_given == 1) << "a sequence that decodes was left out";
      const bool wants_more = book.has_begun && num_rows_given < book.num_known() - book.num_run;
      ASSERT_TRUE(!wants_more || num_rows == options_.max_batch_tokens)
          << "rows were left free while a prompt waited for them";
    }
    if (scheduler_.num_waiting() > 0 && scheduler_.num_running() < options_.max_sequences)
      ++num_refused_for_pages_;

    for (const Slice& slice : slices) {
      scheduler_.advance(slice);
      Book& book = books_.at(slice.request);
      book.num_run += slice.num_tokens;
      book.num_given += slice.gives_token;
      if (book.num_given == book.leaves_after) remove(slice.request);
    }
  }

  SchedulerOptions options_;
  Scheduler scheduler_;
  std::mt19937 random_;
  std::map<RequestId, Book> books_;  // by id: in the order of arrival
  int num_refused_for_pages_{0};
};

TEST(Scheduler, HoldsItsPromisesOverThousandsOfRandomArrivals) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    for (const int window : {16, 128}) {
      Simulation({.max_batch_tokens = 40,
                  .max_sequences = 12,
                  .num_full_pages = 40,
                  .num_sliding_pages = 20,
                  .window = window},
                 seed)
          .run(2000);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", window " << window;
    }
  }
}

}  // namespace
}  // namespace nibble
