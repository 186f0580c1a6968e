// Tests how prompts share the rows of a step, also by priority.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/scheduler_steps.h"

namespace nibble {
namespace {

TEST(Scheduler, ALongPromptDoesNotStallARunningChat) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 10, 50);
  run_step(scheduler);
  add(scheduler, id(2), 1000, 10);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 1);   // the chat decodes in this step,
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 63);  // and the prompt takes the rest of the 64 rows
}

TEST(Scheduler, OfPromptsOfTheSameLengthTheOlderAreFedFirst) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 50, 1);
  add(scheduler, id(2), 50, 1);
  add(scheduler, id(3), 50, 1);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 50);
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 14);
  EXPECT_EQ(part_of(slices, id(3)).num_tokens, 0);
}

TEST(SchedulerRows, AShortPromptIsRunInTheNextStepHoweverManyLongOnesCameBefore) {
  for (const int num_long : {1, 2, 7}) {
    Scheduler scheduler(options_for_long_prompts());
    for (int n = 1; n <= num_long; ++n) add(scheduler, id(n), 8000, 10);
    run_step(scheduler);
    add(scheduler, id(90), 30, 10);
    const std::vector<Slice> slices = run_step(scheduler);
    EXPECT_TRUE(part_of(slices, id(90)).gives_token) << num_long;
    EXPECT_EQ(part_of(slices, id(1)).num_tokens, 64 - 30) << "the others are not left free";
  }
}

TEST(SchedulerRows, APromptThatIsAloneGetsAllRows) {
  Scheduler scheduler(options_for_long_prompts());
  add(scheduler, id(1), 6400, 10);
  EXPECT_EQ(steps_until_token(scheduler, id(1)), 100);
}

TEST(SchedulerRows, PromptsGetFewerRowsWhileOthersWaitIfMaxSharedRowsIsSet) {
  SchedulerOptions options = options_for_long_prompts();
  options.max_shared_rows = 16;
  Scheduler scheduler(options);
  add(scheduler, id(1), 1000, 10);
  EXPECT_EQ(part_of(run_step(scheduler), id(1)).num_tokens, 64) << "it is alone";
  add(scheduler, id(2), 10, 2);
  std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 8);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 8);
  slices = run_step(scheduler);
  EXPECT_TRUE(part_of(slices, id(2)).gives_token);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 14);
  slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(2)).num_tokens, 1);
  EXPECT_EQ(part_of(slices, id(1)).num_tokens, 16) << "rows of answers do not count";
  scheduler.remove(id(2));
  EXPECT_EQ(part_of(run_step(scheduler), id(1)).num_tokens, 64) << "it is alone again";
}

TEST(SchedulerRows, ShortPromptsThatNeverStopComingTakeAtMostHalf) {
  Scheduler scheduler(options_for_long_prompts());
  add(scheduler, id(1), 6400, 10);
  int num_steps = 0;
  for (bool has_token = false; !has_token; ++num_steps) {
    ASSERT_LT(num_steps, 300);
    for (int n = 0; n < 3; ++n) add(scheduler, id(2 + 3 * num_steps + n), 30, 1);
    for (const Slice& slice : run_step(scheduler)) {
      has_token |= slice.gives_token && slice.request == id(1);
      if (slice.gives_token && slice.request != id(1)) scheduler.remove(slice.request);
    }
  }
  EXPECT_EQ(num_steps, 200);
}

TEST(SchedulerRows, EqualPromptsAreRunOneAfterAnother) {
  Scheduler scheduler(options_for_long_prompts());
  for (int n = 1; n <= 3; ++n) add(scheduler, id(n), 640, 1);
  for (int n = 1; n <= 3; ++n) {
    EXPECT_EQ(steps_until_token(scheduler, id(n)), 10);
    scheduler.remove(id(n));
  }
}

TEST(SchedulerPriority, LowerNumbersAreAdmittedFirst) {
  SchedulerOptions one = scheduler_options();
  one.max_sequences = 1;
  Scheduler scheduler(one);
  add(scheduler, id(1), 5, 5);
  run_step(scheduler);
  for (const auto& [n, priority] : {std::pair(2, 1), {3, 0}, {4, -7}, {5, 1}, {6, 0}})
    scheduler.add(id(n), prompt(id(n), 5), 5, {.priority = priority});
  for (const int n : {1, 4, 3, 6, 2, 5}) {
    run_step(scheduler);
    EXPECT_TRUE(scheduler.is_running(id(n))) << n;
    scheduler.remove(id(n));
  }
}

TEST(SchedulerPriority, LowerNumbersGetTheirRowsFirst) {
  Scheduler scheduler(options_for_long_prompts());
  scheduler.add(id(1), prompt(id(1), 20), 5, {.priority = 1});
  scheduler.add(id(2), prompt(id(2), 640), 5, {.priority = 0});
  scheduler.add(id(3), prompt(id(3), 630), 5, {.priority = 0});
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 32) << "the shorter of those that come first";
  EXPECT_FALSE(scheduler.waits_for_tokens());
  for (int n = 0; n < 18; ++n) EXPECT_EQ(part_of(run_step(scheduler), id(1)).num_tokens, 0);
  EXPECT_EQ(part_of(run_step(scheduler), id(1)).num_tokens, 10) << "1,280 rows for the 1,270 of the others";
}

TEST(SchedulerPriority, TheHighestNumberIsPreemptedFirst) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 16;
  small.prefix_cache = false;
  Scheduler scheduler(small);
  scheduler.add(id(1), prompt(id(1), 60), 100, {.priority = 3});
  scheduler.add(id(2), prompt(id(2), 60), 100, {.priority = 2});
  while (scheduler.counts().num_preemptions == 0) run_step(scheduler);
  EXPECT_FALSE(scheduler.is_running(id(1)));
  EXPECT_TRUE(scheduler.is_running(id(2)));
}

}  // namespace
}  // namespace nibble
