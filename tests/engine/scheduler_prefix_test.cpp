// Tests which pages prompts with a common prefix share, and which prompts wait for them.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/scheduler_steps.h"

namespace nibble {
namespace {

TEST(SchedulerPrefix, APromptThatIsRunWholeSharesNothingButIsShared) {
  SchedulerOptions wide = scheduler_options();
  wide.max_batch_tokens = 256;
  Scheduler scheduler(wide);
  const std::vector<TokenId> tokens = prompt(id(1), 64);
  scheduler.add(id(1), tokens, 3);
  run_step(scheduler);
  scheduler.add(id(2), tokens, 3, {.whole_prompt = true});
  scheduler.add(id(3), tokens, 3);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(2)).first_position, 0);
  EXPECT_EQ(part_of(slices, id(3)).first_position, 32);
}

TEST(SchedulerPrefix, OneThatWaitsForAPrefixDoesNotHoldUpOthers) {
  Scheduler scheduler(options_for_long_prompts());
  scheduler.add(id(1), std::vector<TokenId>(8000, 5), 10);
  scheduler.add(id(2), std::vector<TokenId>(8000, 5), 10);
  add(scheduler, id(3), 30, 10);
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 30);
  EXPECT_FALSE(scheduler.is_running(id(2)));
  EXPECT_EQ(steps_until_token(scheduler, id(2)), 126) << "in the step after the last whole page";
}

TEST(SchedulerPrefix, AShortPromptDoesNotWaitForALongOneThatGetsNoRowsYet) {
  Scheduler scheduler(options_for_long_prompts());
  add(scheduler, id(1), 8000, 10);
  scheduler.add(id(2), std::vector<TokenId>(8000, 5), 10);
  EXPECT_EQ(part_of(run_step(scheduler), id(2)).num_tokens, 0);
  scheduler.add(id(3), std::vector<TokenId>(70, 5), 10);
  scheduler.add(id(4), std::vector<TokenId>(50, 5), 10);
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 32);
  EXPECT_FALSE(scheduler.is_running(id(4))) << "the third fills the page that both have in common";
  EXPECT_EQ(part_of(run_step(scheduler), id(4)).first_position, 32);
}

TEST(SchedulerPrefix, APromptThatIsKnownIsRunFromItsLastPageOn) {
  Scheduler scheduler(scheduler_options());
  scheduler.add(id(1), std::vector<TokenId>(150, 5), 1);
  for (int step = 0; step < 3; ++step) run_step(scheduler);
  scheduler.remove(id(1));
  scheduler.add(id(2), std::vector<TokenId>(150, 5), 1);
  const Slice part = part_of(run_step(scheduler), id(2));
  EXPECT_EQ(part.first_position, 128);
  EXPECT_EQ(part.num_tokens, 22);
  EXPECT_TRUE(part.gives_token);
  EXPECT_EQ(scheduler.counts().num_prompt_tokens, 300u);
  EXPECT_EQ(scheduler.counts().num_cached_tokens, 128u);
}

TEST(SchedulerPrefix, APromptWhoseRequestEndsWithItsFirstStepIsKnown) {
  Scheduler scheduler(scheduler_options());
  scheduler.add(id(1), std::vector<TokenId>(64, 5), 1);
  run_step(scheduler);
  scheduler.remove(id(1));
  scheduler.add(id(2), std::vector<TokenId>(65, 5), 1);
  EXPECT_EQ(part_of(run_step(scheduler), id(2)).first_position, 64);
}

TEST(SchedulerPrefix, AfterAStepThatFailedNothingIsKnown) {
  Scheduler scheduler(scheduler_options());
  for (int n = 1; n <= 2; ++n) {
    scheduler.add(id(n), std::vector<TokenId>(64, 5), 2);
    EXPECT_EQ(part_of(scheduler.next(), id(n)).first_position, 0);
    EXPECT_TRUE(part_of(scheduler.next(), id(n)).follows);  // planned before the failure is known
    EXPECT_EQ(scheduler.remove_running(), std::vector{id(n)});
    EXPECT_EQ(scheduler.num_held_pages(0).full, 0);
  }
}

TEST(SchedulerPrefix, EqualPromptsWaitForTheFirstAndShareItsPages) {
  Scheduler scheduler(scheduler_options());
  for (int n = 1; n <= 4; ++n) scheduler.add(id(n), std::vector<TokenId>(150, 5), 10);
  EXPECT_EQ(run_step(scheduler).size(), 1u);
  EXPECT_EQ(run_step(scheduler).size(), 1u);  // 128 tokens, the 4 whole pages of the prompt
  const std::vector<Slice> slices = run_step(scheduler);
  ASSERT_EQ(slices.size(), 3u);  // 22 of 64 rows for each
  for (const Slice& slice : slices) {
    EXPECT_EQ(slice.first_position, 128);
    for (size_t page = 0; page < 4; ++page) EXPECT_EQ(slice.full.pages[page], slices[0].full.pages[page]);
    EXPECT_EQ(slice.full.pages[4] == slices[0].full.pages[4], &slice == &slices[0]);
  }
  EXPECT_EQ(scheduler.num_held_pages(0).full, 4 + 3);
}

TEST(SchedulerPrefix, APromptDoesNotWaitForOneWithAnotherSalt) {
  Scheduler scheduler(scheduler_options());
  const std::vector<TokenId> tokens(40, 5);
  scheduler.add(id(1), tokens, 10, {.cache_salt = "a"});
  scheduler.add(id(2), tokens, 10, {.cache_salt = "b"});
  scheduler.add(id(3), tokens, 10, {.cache_salt = "a"});
  EXPECT_EQ(run_step(scheduler).size(), 2u);
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(3)).first_position, 32);
  EXPECT_EQ(part_of(slices, id(3)).full.pages[0], part_of(slices, id(1)).full.pages[0]);
  EXPECT_NE(part_of(slices, id(3)).full.pages[0], part_of(slices, id(2)).full.pages[0]);
}

TEST(SchedulerPrefix, TurnedOffNothingIsSharedAndNoSequenceWaits) {
  SchedulerOptions plain = scheduler_options();
  plain.prefix_cache = false;
  Scheduler scheduler(plain);
  for (int n = 1; n <= 2; ++n) scheduler.add(id(n), std::vector<TokenId>(40, 5), 10);
  EXPECT_EQ(run_step(scheduler).size(), 2u);
  scheduler.add(id(3), std::vector<TokenId>(40, 5), 10);
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).first_position, 0);
  EXPECT_EQ(scheduler.counts().num_cached_tokens, 0u);
}

// The next turn of a chat continues at the end of this turn's prompt, without the reasoning after it. The
// reasoning fills more sliding pages than the cache has, but the sliding pages at the end of the prompt are
// still cached.
TEST(SchedulerPrefix, TheEndOfAPromptOutlivesItsAnswer) {
  SchedulerOptions one = scheduler_options();
  // Pages for the full layers of 1,100 tokens; in sliding layers 5 pages for the window, 6 for the end of the
  // prompt, 1 that was just freed.
  one.num_pages = 35 + 12;
  for (const int num_prompt_tokens : {159, 160, 161, 191, 300}) {
    Scheduler scheduler(one);
    std::vector<TokenId> tokens = prompt(id(1), num_prompt_tokens);
    scheduler.add(id(1), tokens, 700);
    for (bool has_ended = false; !has_ended;)
      has_ended = run_step(scheduler).front().first_position >= num_prompt_tokens + 650;
    scheduler.remove(id(1));
    tokens.push_back(1);  // the next prompt repeats the first token of the answer
    tokens.resize(tokens.size() + 100, 7);
    scheduler.add(id(2), tokens, 1);
    EXPECT_EQ(run_step(scheduler).front().first_position,
              (num_prompt_tokens + 1) / kPageTokens * kPageTokens);
  }
}

}  // namespace
}  // namespace nibble
