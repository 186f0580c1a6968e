// Tests which sequences run in which step. The scheduler knows neither model nor time: the tests simulate
// both.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nibble {
namespace {

constexpr RequestId id(int n) { return static_cast<RequestId>(n); }

SchedulerOptions scheduler_options() {
  return {.max_batch_tokens = 64, .max_sequences = 8, .num_pages = 200, .window = 128};
}

// Runs a step in which every sequence samples token 1.
std::vector<Slice> run_step(Scheduler& scheduler) {
  const std::vector<Slice> slices = scheduler.next();
  for (const Slice& slice : slices)
    if (slice.gives_token) scheduler.push(slice.request, 1);
  return slices;
}
// Returns a prompt that shares no prefix with others.
std::vector<TokenId> prompt(RequestId request, int num_tokens) {
  std::vector<TokenId> tokens(static_cast<size_t>(num_tokens), 5);
  tokens[0] = 1000 + static_cast<TokenId>(request);
  return tokens;
}
void add(Scheduler& scheduler, RequestId request, int num_prompt_tokens, int max_output_tokens) {
  scheduler.add(request, prompt(request, num_prompt_tokens), max_output_tokens);
}
// Returns the slice of a request in a step, or an empty slice.
Slice part_of(const std::vector<Slice>& slices, RequestId request) {
  const auto found =
      std::find_if(slices.begin(), slices.end(), [&](auto& s) { return s.request == request; });
  return found == slices.end() ? Slice{} : *found;
}

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

// Offers `num_drafts` drafts to every sequence.
PlanDrafts drafting(int num_drafts) {
  return [=](const DraftRoom& room) {
    for (DraftRoom::Quota& quota : room.quotas) quota.num_drafts = num_drafts;
  };
}

TEST(SchedulerDrafts, ThoseThatCameArePartOfTheTextAndTheOthersLeaveNoTrace) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 30, 20);
  run_step(scheduler);
  const Slice part = part_of(scheduler.next(drafting(4)), id(1));
  EXPECT_EQ(part.first_position, 30);
  EXPECT_EQ(part.num_tokens, 5);
  EXPECT_EQ(part.num_drafts, 4);
  EXPECT_EQ(part.full.pages.size(), 2u);
  EXPECT_EQ(scheduler.num_held_pages(0).full, 2);
  EXPECT_TRUE(scheduler.next(drafting(4)).empty()) << "what comes next is not known";
  scheduler.push(id(1), 1);
  scheduler.accept(id(1), 0);
  EXPECT_EQ(scheduler.num_held_pages(0).full, 1) << "a page that only drafts were in";
  EXPECT_EQ(part_of(scheduler.next(drafting(4)), id(1)).first_position, 31);
  for (int n = 0; n < 3; ++n) n == 0 ? scheduler.push(id(1), 1) : scheduler.append(id(1), 1);
  scheduler.accept(id(1), 2);
  EXPECT_EQ(part_of(scheduler.next(), id(1)).first_position, 34);
}

TEST(SchedulerDrafts, OfTheBackendMayFollowDraftsThatAreNotCheckedYet) {
  SchedulerOptions options = scheduler_options();
  options.launches_before_drafts = true;
  Scheduler scheduler(options);
  add(scheduler, id(1), 26, 11);
  scheduler.next();  // the token of this step is not reported yet
  Slice part = part_of(scheduler.next(drafting(4)), id(1));
  EXPECT_TRUE(part.follows);
  EXPECT_EQ(part.num_unsure, 0);
  EXPECT_EQ(part.num_drafts, 4);
  scheduler.push(id(1), 1);
  part = part_of(scheduler.next(drafting(4)), id(1));  // follows positions 26 to 30
  EXPECT_TRUE(part.follows && part.gives_token);
  EXPECT_EQ(part.first_position, 27);
  EXPECT_EQ(part.num_unsure, 4);
  EXPECT_EQ(part.num_tokens, 5);
  EXPECT_EQ(part.full.pages.size(), 2u);
  for (int n = 0; n < 4; ++n) n == 0 ? scheduler.push(id(1), 1) : scheduler.append(id(1), 1);
  scheduler.accept(id(1), 3);
  EXPECT_FALSE(scheduler.waits_for_tokens());
  part = part_of(scheduler.next(drafting(4)), id(1));
  EXPECT_EQ(part.first_position, 31);
  EXPECT_EQ(part.num_unsure, 4);
  EXPECT_EQ(part.num_drafts, 0) << "these might stand behind the answer's last token";
  scheduler.push(id(1), 1);
  scheduler.accept(id(1), 0);
  part = part_of(scheduler.next(drafting(4)), id(1));
  EXPECT_EQ(part.first_position, 32);
  EXPECT_EQ(part.num_drafts, 3);
  scheduler.push(id(1), 1);
  EXPECT_TRUE(scheduler.waits_for_tokens()) << "these may be the last";
  EXPECT_TRUE(scheduler.next(drafting(4)).empty());
  for (int n = 0; n < 2; ++n) n == 0 ? scheduler.push(id(1), 1) : scheduler.append(id(1), 1);
  scheduler.accept(id(1), 1);
  part = part_of(scheduler.next(drafting(4)), id(1));
  EXPECT_FALSE(part.follows);
  EXPECT_EQ(part.first_position, 34);
  EXPECT_EQ(part.num_drafts, 1);
}

TEST(SchedulerDrafts, UseOnlyFreeRowsAndEndWithTheAnswer) {
  Scheduler scheduler(scheduler_options());
  add(scheduler, id(1), 10, 50);
  add(scheduler, id(2), 10, 4);
  run_step(scheduler);
  add(scheduler, id(3), 57, 9);
  std::vector<Slice> slices = scheduler.next(drafting(20));
  EXPECT_EQ(part_of(slices, id(3)).num_tokens, 57);
  EXPECT_EQ(part_of(slices, id(1)).num_drafts, 5);  // 57 + 1 + 1 + 5 are the 64 rows of a step
  EXPECT_EQ(part_of(slices, id(2)).num_drafts, 0);
  for (const int who : {1, 2, 3}) scheduler.push(id(who), 1), scheduler.accept(id(who), 0);
  scheduler.remove(id(3));
  slices = scheduler.next(drafting(20));
  EXPECT_EQ(part_of(slices, id(1)).num_drafts, 20);
  EXPECT_EQ(part_of(slices, id(2)).num_drafts, 1);  // the last of the four tokens of the answer is never run
}

TEST(SchedulerDrafts, TakeNoPageThatOthersMayNeedNext) {
  SchedulerOptions small = scheduler_options();
  small.num_pages = 8;
  Scheduler scheduler(small);
  add(scheduler, id(1), 31, 60);
  add(scheduler, id(2), 30, 5);
  run_step(scheduler);  // 2 pages are free, one for each sequence
  const std::vector<Slice> slices = scheduler.next(drafting(8));
  EXPECT_EQ(part_of(slices, id(1)).num_drafts, 0);
  EXPECT_EQ(part_of(slices, id(2)).num_drafts, 1);  // the draft fits in the sequence's last page
}

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

// ---- a long prompt among others ----

// Returns the number of steps until a request's prompt is complete.
int steps_until_token(Scheduler& scheduler, RequestId request) {
  for (int num_steps = 1; num_steps < 10'000; ++num_steps)
    if (part_of(run_step(scheduler), request).gives_token) return num_steps;
  return 0;
}

SchedulerOptions options_for_long_prompts() {
  SchedulerOptions options = scheduler_options();
  options.num_pages = 4000;
  return options;
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

// ---- priorities ----

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

// ---- a KV cache for each rank, which runs its own sequences ----

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
  add(scheduler, id(1), 4, 10);  // held by the first cache
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

// ---- pages run out ----

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
  EXPECT_EQ(position_of_second, 127);  // one step less than the first sequence, which needed a fifth page
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
  // Of the 128 positions of sequence 2, 96 are still cached: sequence 1 took one of its pages.
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

// ---- common prefixes ----

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

}  // namespace
}  // namespace nibble
