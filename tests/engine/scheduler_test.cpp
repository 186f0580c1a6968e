// Tests how steps follow each other and how many sequences run at once. The scheduler knows neither model nor
// time: the tests simulate both.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/scheduler_steps.h"

namespace nibble {
namespace {

TEST(Scheduler, FeedsAPromptInChunksAndThenOneTokenAtATime) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 150, 10);
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

TEST(Scheduler, PlansOneStepBeforeItKnowsTheTokensOfTheOneBeforeIt) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 10, 3);
  EXPECT_FALSE(part_of(scheduler.next(), id(1)).follows);
  for (const int position : {10, 11}) {
    const Slice part = part_of(scheduler.next(), id(1));
    EXPECT_TRUE(part.follows && part.gives_token);
    EXPECT_EQ(part.first_position, position);
    EXPECT_EQ(part.num_tokens, 1);
    scheduler.push(id(1), 7);
  }
  EXPECT_TRUE(scheduler.next().empty()) << "the third token of the answer is its last, which is never run";
  scheduler.push(id(1), 7);
}

TEST(Scheduler, PlansNoStepAheadForWhomWaitsForTheirTokens) {
  Scheduler scheduler(scheduler_options());
  scheduler.add(id(1), prompt(id(1), 10), 3, {.known_tokens = true});
  add(scheduler, id(2), 10, 9);
  EXPECT_FALSE(scheduler.waits_for_tokens());
  EXPECT_EQ(scheduler.next().size(), 2u);
  for (int n = 0; n < 2; ++n) {
    EXPECT_TRUE(scheduler.waits_for_tokens());
    const std::vector<Slice> ahead = scheduler.next();
    EXPECT_EQ(part_of(ahead, id(1)).num_tokens, 0);
    EXPECT_TRUE(part_of(ahead, id(2)).follows);
    for (const int who : {1, 2}) scheduler.push(id(who), 7);
    const Slice part = part_of(scheduler.next(), id(1));
    EXPECT_TRUE(part.gives_token && !part.follows);
    EXPECT_EQ(part.first_position, 10 + n);
    scheduler.push(id(2), 7);
  }
  EXPECT_FALSE(scheduler.waits_for_tokens()) << "the token that it waits for is its last";
}

TEST(Scheduler, RunsNoMoreThanMaxSequencesAtOnce) {
  SchedulerOptions two = scheduler_options();
  two.max_sequences = 2;
  Scheduler scheduler(two);
  for (int n = 1; n <= 3; ++n) add(scheduler, id(n), 5, 5);
  EXPECT_EQ(run_step(scheduler).size(), 2u);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.remove(id(1));
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 5);
}

TEST(Scheduler, NeverRunsMoreSequencesThanAStepHasRows) {
  SchedulerOptions narrow = scheduler_options();
  narrow.max_batch_tokens = 3;
  Scheduler scheduler(narrow);
  for (int n = 1; n <= 5; ++n) add(scheduler, id(n), 1, 9);
  EXPECT_EQ(run_step(scheduler).size(), 3u);
  EXPECT_EQ(scheduler.num_running(), 3);
}

}  // namespace
}  // namespace nibble
