// Tests which sequences are admitted when pages are scarce, which sequences give pages back when no page is
// free, and how sequences are spread over several KV caches.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/scheduler_steps.h"

namespace nibble {
namespace {

TEST(Scheduler, AdmitsWhomThePagesOfTheirPromptAreLeftFor) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 20;
  Scheduler scheduler(small);
  add(scheduler, id(1), 10, 300);  // 309 positions at most: 10 pages, of which 1 is needed now
  add(scheduler, id(2), 10, 300);
  add(scheduler, id(3), 200, 10);  // 7 pages: only the 2 pages that the others need to continue would remain
  EXPECT_EQ(run_step(scheduler).size(), 2u);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.remove(id(1));
  EXPECT_EQ(run_step(scheduler).size(), 2u);
}

TEST(Scheduler, CountsPagesThatThoseWhoRunHaveYetToTake) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 20;
  Scheduler scheduler(small);
  add(scheduler, id(1), 250, 10);  // 8 pages, 2 of them in the first step
  add(scheduler, id(2), 33, 10);   // 2 pages, plus 1 for the first sequence: more than are free
  EXPECT_EQ(run_step(scheduler).size(), 1u);
  EXPECT_EQ(scheduler.num_held_pages(0).full, 2);
  EXPECT_EQ(scheduler.num_waiting(), 1);
}

TEST(Scheduler, SequencesWithRoomOvertakeOneWithoutABoundedNumberOfTimes) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 20;
  Scheduler scheduler(small);
  add(scheduler, id(1), 180, 99);  // 6 pages, later 7
  add(scheduler, id(2), 180, 10);  // 6 pages, so it must wait
  for (int n = 0; n < Scheduler::kMaxOvertaking; ++n) {
    add(scheduler, id(3 + n), 1, 10);  // 1 page
    EXPECT_EQ(part_of(run_step(scheduler), id(3 + n)).num_tokens, 1) << n;
    scheduler.remove(id(3 + n));
  }
  add(scheduler, id(90), 1, 10);
  run_step(scheduler);
  EXPECT_FALSE(scheduler.is_running(id(90))) << "overtook the one that has waited for long enough";
  scheduler.remove(id(1));
  EXPECT_GT(part_of(run_step(scheduler), id(2)).num_tokens, 0);
  EXPECT_TRUE(scheduler.is_running(id(90)));
}

TEST(Scheduler, OneThatIsPreemptedMayBeOvertakenAnew) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 20;
  small.prefix_cache = false;
  Scheduler scheduler(small);
  add(scheduler, id(1), 60, 250);
  add(scheduler, id(2), 60, 250);
  while (scheduler.counts().num_preemptions == 0) run_step(scheduler);
  add(scheduler, id(3), 1, 1);
  EXPECT_EQ(part_of(run_step(scheduler), id(3)).num_tokens, 1);
  EXPECT_FALSE(scheduler.is_running(id(2)));
}

TEST(Scheduler, PagesAreFreeAtOnceWhenASequenceIsRemoved) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 300, 100);
  run_step(scheduler);
  run_step(scheduler);
  EXPECT_EQ(scheduler.num_held_pages(0).full, 4);
  scheduler.remove(id(1));
  scheduler.remove(id(1));  // already removed: no effect
  scheduler.remove(id(7));
  EXPECT_EQ(scheduler.num_held_pages(0).full, 0);
  EXPECT_EQ(scheduler.num_held_pages(0).sliding, 0);
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_TRUE(scheduler.next().empty());
}

// Two sequences with 4 pages each need more than the 8 full pages. The older sequence gets all pages that it
// needs.
TEST(SchedulerPreemption, TheYoungestGivesItsPagesToTheOldest) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 16;
  small.prefix_cache = false;
  Scheduler scheduler(small);
  add(scheduler, id(1), 60, 100);
  add(scheduler, id(2), 60, 100);
  int position_of_second = 0, num_steps = 0;
  while (scheduler.counts().num_preemptions == 0) {
    ASSERT_LT(++num_steps, 200);
    const std::vector<Slice> slices = run_step(scheduler);
    EXPECT_GT(part_of(slices, id(1)).num_tokens, 0);
    if (const Slice part = part_of(slices, id(2)); part.num_tokens > 0)
      position_of_second = part.first_position + part.num_tokens;
  }
  // The second sequence has run positions 0 to 126. The first then needed a fifth page, for position 128.
  EXPECT_EQ(position_of_second, 127);
  EXPECT_EQ(scheduler.num_running(), 1);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  EXPECT_EQ(scheduler.num_held_pages(0).full, 5);
  scheduler.remove(id(1));
  // The second sequence runs again from its first token: the prompt, then all 68 sampled tokens.
  EXPECT_EQ(part_of(run_step(scheduler), id(2)).first_position, 0);
  const Slice last = part_of(run_step(scheduler), id(2));
  EXPECT_EQ(last.first_position, 64);
  EXPECT_EQ(last.num_tokens, 64);
  EXPECT_TRUE(last.gives_token);
}

TEST(SchedulerPreemption, WhatThePrefixCacheStillHasIsNotRunAgain) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 16;
  Scheduler scheduler(small);
  add(scheduler, id(1), 60, 100);
  add(scheduler, id(2), 60, 100);
  while (scheduler.counts().num_preemptions == 0) run_step(scheduler);
  scheduler.remove(id(1));
  // 96 of its 128 positions are still cached: the first sequence took one page.
  EXPECT_EQ(part_of(run_step(scheduler), id(2)).first_position, 96);
}

TEST(SchedulerPreemption, OneThatRunsAgainTakesChunksThatItsPagesHaveRoomFor) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 15;  // 10 for the full layers of 300 positions, and 5 for a window of 128 while decoding
  small.prefix_cache = false;
  Scheduler scheduler(small);
  add(scheduler, id(1), 1, 300);
  add(scheduler, id(2), 1, 300);
  for (int n = 0; n < 2000 && scheduler.num_running() + scheduler.num_waiting() > 0; ++n) {
    for (const Slice& slice : run_step(scheduler))
      if (slice.first_position + slice.num_tokens == 300) scheduler.remove(slice.request);
  }
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_GT(scheduler.counts().num_preemptions, 0u);
}

SchedulerOptions options_of_caches(int num_kv_caches) {
  SchedulerOptions options = scheduler_options();
  options.num_kv_caches = num_kv_caches;
  return options;
}
int cache_of(const std::vector<Slice>& slices, RequestId request) {
  return static_cast<int>(part_of(slices, request).full.pages.front()) / scheduler_options().num_pages;
}

TEST(SchedulerCaches, SequencesAreSpreadOverThem) {
  Scheduler scheduler(options_of_caches(3));
  for (int n = 1; n <= 6; ++n) add(scheduler, id(n), 4, 10);
  const std::vector<Slice> slices = run_step(scheduler);
  for (int n = 1; n <= 6; ++n) EXPECT_EQ(cache_of(slices, id(n)), (n - 1) % 3) << n;
  scheduler.remove(id(2));
  scheduler.remove(id(5));
  for (int n = 7; n <= 8; ++n) add(scheduler, id(n), 4, 10);
  const std::vector<Slice> next = run_step(scheduler);
  EXPECT_EQ(cache_of(next, id(7)), 1);
  EXPECT_EQ(cache_of(next, id(8)), 1);
}

TEST(SchedulerCaches, APromptGoesWhereItIsKnownUnlessManyMoreRunThere) {
  Scheduler scheduler(options_of_caches(2));
  const std::vector<TokenId> known(70, 7);
  add(scheduler, id(1), 4, 10);  // placed in the first cache, so the next one goes to the second
  scheduler.add(id(2), known, 10);
  run_step(scheduler);
  run_step(scheduler);
  scheduler.remove(id(1));
  scheduler.add(id(3), known, 10);
  std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(cache_of(slices, id(3)), 1) << "one more runs there, and 64 tokens are known";
  EXPECT_EQ(part_of(slices, id(3)).first_position, 64);
  scheduler.add(id(4), known, 10);
  slices = run_step(scheduler);
  EXPECT_EQ(cache_of(slices, id(4)), 0) << "two more run there";
  EXPECT_EQ(part_of(slices, id(4)).first_position, 0);
}

TEST(SchedulerCaches, OnlySequencesOfTheSameOneCompeteForItsPages) {
  SchedulerOptions small = options_of_caches(2);
  small.num_pages = 16;
  small.prefix_cache = false;
  Scheduler scheduler(small);
  const auto cache_here = [&](const std::vector<Slice>& slices, int n) {
    return static_cast<int>(part_of(slices, id(n)).full.pages.front()) / small.num_pages;
  };
  for (int n = 1; n <= 4; ++n) add(scheduler, id(n), n % 2 == 1 ? 60 : 4, 100);
  int num_steps = 0;
  while (scheduler.counts().num_preemptions == 0) {
    ASSERT_LT(++num_steps, 200);
    const std::vector<Slice> slices = run_step(scheduler);
    for (int n = 1; n <= 4; ++n)
      if (part_of(slices, id(n)).num_tokens > 0) {
        EXPECT_EQ(cache_here(slices, n), (n - 1) % 2);
      }
  }
  EXPECT_FALSE(scheduler.is_running(id(3))) << "the youngest where pages ran out";
  EXPECT_TRUE(scheduler.is_running(id(4))) << "younger, in the other cache";
  // The preempted sequence continues in the cache that has room.
  add(scheduler, id(5), 1, 1);
  scheduler.remove(id(2));
  const std::vector<Slice> slices = run_step(scheduler);
  EXPECT_EQ(part_of(slices, id(3)).first_position, 0);
  EXPECT_EQ(cache_here(slices, 3), 1);
}

}  // namespace
}  // namespace nibble
