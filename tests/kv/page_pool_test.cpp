#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

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

TEST(PagePool, ASharedPageIsFreeWhenItsLastHolderGivesItBack) {
  PagePool pool(1);
  const PageId page = pool.take().value();
  pool.share(page);
  pool.give_back(page);
  EXPECT_EQ(pool.num_free(), 0);
  pool.give_back(page);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(PagePool, AKeptPageIsHandedOutOnlyWhenNoWorthlessOneIsLeft) {
  PagePool pool(3);
  std::vector<PageId> reclaimed;
  pool.on_reclaim([&](PageId page) { reclaimed.push_back(page); });
  const PageId kept = pool.take().value();
  pool.keep(kept);
  pool.give_back(kept);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_NE(pool.take(), kept);
  EXPECT_NE(pool.take(), kept);
  EXPECT_TRUE(reclaimed.empty());
  EXPECT_EQ(pool.take(), kept);
  EXPECT_EQ(reclaimed, std::vector<PageId>{kept});
  EXPECT_FALSE(pool.is_kept(kept));
}

// Compares with a model that records only when each page was last used.
TEST(PagePool, ReclaimsWhatWasUsedLongestAgo) {
  struct Book {
    int num_holders{0};
    bool is_kept{false};
    int last_use{0};
  };
  constexpr int kNumPages{12};
  PagePool pool(kNumPages);
  std::map<PageId, Book> books;
  for (int page = 0; page < kNumPages; ++page) books[static_cast<PageId>(page)];
  std::optional<PageId> reclaimed;
  pool.on_reclaim([&](PageId page) { reclaimed = page; });
  std::mt19937 random(1);
  int num_reclaimed = 0;
  for (int now = 1; now <= 20000; ++now) {
    const auto page = static_cast<PageId>(random() % kNumPages);
    Book& book = books[page];
    const bool is_there = book.num_holders > 0 || book.is_kept;
    switch (random() % 7) {
      case 0:
        if (book.num_holders > 0 && !book.is_kept) pool.keep(page), book.is_kept = true;
        break;
      case 1:
        if (book.is_kept && random() % 8 == 0) pool.forget(page), book.is_kept = false;
        break;
      case 2:
        if (book.is_kept) pool.touch(page), book.last_use = now;
        break;
      case 3:
        if (is_there && random() % 2 == 0) pool.share(page), ++book.num_holders;
        break;
      case 4:
      case 5:
        if (book.num_holders > 0) pool.give_back(page), --book.num_holders, book.last_use = now;
        break;
      default: {
        reclaimed.reset();
        const std::optional<PageId> taken = pool.take();
        const auto is_free = [](const auto& entry) { return entry.second.num_holders == 0; };
        ASSERT_EQ(taken.has_value(), std::any_of(books.begin(), books.end(), is_free));
        if (!taken) break;
        ASSERT_EQ(books[*taken].num_holders, 0);
        ASSERT_EQ(reclaimed.has_value(), books[*taken].is_kept);
        for (const auto& [other, state] : books) {
          if (!reclaimed || state.num_holders > 0) continue;
          ASSERT_TRUE(state.is_kept) << "a worthless one was left";
          ASSERT_GE(state.last_use, books[*taken].last_use) << "an older one was left";
        }
        num_reclaimed += reclaimed.has_value();
        books[*taken] = {.num_holders = 1, .is_kept = false, .last_use = now};
      }
    }
    const auto num_free = std::count_if(books.begin(), books.end(),
                                        [](const auto& entry) { return entry.second.num_holders == 0; });
    ASSERT_EQ(pool.num_free(), num_free);
  }
  EXPECT_GT(num_reclaimed, 100);
}

TEST(PagePoolDeathTest, GivingBackWhatWasNotTakenStopsTheProgram) {
  PagePool pool(2);
  const PageId page = pool.take().value();
  pool.give_back(page);
  EXPECT_DEATH(pool.give_back(page), "was not taken");
  EXPECT_DEATH(pool.give_back(PageId{2}), "page 2 of 2");
}

}  // namespace
}  // namespace nibble
