#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace nibble {
namespace {

TEST(PagePool, HandsOutEveryPageOnceAndThenNothing) {
  PagePool pool(5);
  std::set<PageId> taken;
  for (int i = 0; i < 5; ++i) taken.insert(pool.take().value());
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(*taken.rbegin(), PageId{4});
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_FALSE(pool.take());
}

TEST(PagePool, APageGivenBackIsHandedOutAgain) {
  PagePool pool(2);
  const PageId first = pool.take().value();
  pool.take();
  pool.give_back(first);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.take(), first);
}

TEST(PagePool, OfNoPagesHasNoneToGive) { EXPECT_FALSE(PagePool(0).take()); }

TEST(PagePoolDeathTest, GivingBackWhatWasNotTakenStopsTheProgram) {
  PagePool pool(2);
  const PageId page = pool.take().value();
  pool.give_back(page);
  EXPECT_DEATH(pool.give_back(page), "was not taken");
  EXPECT_DEATH(pool.give_back(PageId{2}), "page 2 of 2");
}

}  // namespace
}  // namespace nibble
