// Tests how many drafts a step runs, and that rejected drafts leave no trace.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/scheduler_steps.h"

namespace nibble {
namespace {

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
  // The previous slice ran positions 26 to 30. Its four drafts, at 27 to 30, may all be rejected.
  part = part_of(scheduler.next(drafting(4)), id(1));
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
  EXPECT_EQ(part_of(slices, id(1)).num_drafts, 5);  // the rest of the 64 rows: 64 - 57 - 2
  EXPECT_EQ(part_of(slices, id(2)).num_drafts, 0);
  for (const int who : {1, 2, 3}) scheduler.push(id(who), 1), scheduler.accept(id(who), 0);
  scheduler.remove(id(3));
  slices = scheduler.next(drafting(20));
  EXPECT_EQ(part_of(slices, id(1)).num_drafts, 20);
  // Two of the answer's four tokens are left, and the last token is never run. So only one draft is useful.
  EXPECT_EQ(part_of(slices, id(2)).num_drafts, 1);
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

}  // namespace
}  // namespace nibble
