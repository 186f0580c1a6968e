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
  for (int i = 0; i < 5; ++i) taken.insert(pool.take(LayerKind::kFull).value());
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(*taken.rbegin(), PageId{4});
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_FALSE(pool.take(LayerKind::kFull));
}

TEST(PagePool, APageGivenBackIsHandedOutAgain) {
  PagePool pool(2);
  const PageId first = pool.take(LayerKind::kFull).value();
  pool.take(LayerKind::kFull);
  pool.give_back(first);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.take(LayerKind::kFull), first);
}

TEST(PagePool, OfNoPagesHasNoneToGive) { EXPECT_FALSE(PagePool(0).take(LayerKind::kFull)); }

TEST(PagePool, ASharedPageIsFreeWhenItsLastHolderGivesItBack) {
  PagePool pool(1);
  const PageId page = pool.take(LayerKind::kFull).value();
  pool.share(page);
  pool.give_back(page);
  EXPECT_EQ(pool.num_free(), 0);
  pool.give_back(page);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(PagePool, AKeptPageIsHandedOutOnlyWhenNoWorthlessOneIsLeft) {
  PagePool pool(3);
  std::vector<PageId> reclaimed;
  pool.on_reclaim([&](PageId page, LayerKind) { reclaimed.push_back(page); });
  const PageId kept = pool.take(LayerKind::kFull).value();
  pool.keep(kept);
  pool.give_back(kept);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_NE(pool.take(LayerKind::kFull), kept);
  EXPECT_NE(pool.take(LayerKind::kFull), kept);
  EXPECT_TRUE(reclaimed.empty());
  EXPECT_EQ(pool.take(LayerKind::kFull), kept);
  EXPECT_EQ(reclaimed, std::vector<PageId>{kept});
  EXPECT_FALSE(pool.is_kept(kept));
}

// Compares the pool with a simple reference, which records for each page only when it was last used, for
// which kind of layer, and whether it was used again.
TEST(PagePool, ReclaimsWhatWasUsedLongestAgoOfTheListWhoseTurnItIs) {
  struct Book {
    int num_holders{0};
    bool is_kept{false};
    int last_use{0};
    LayerKind kind{LayerKind::kFull};
    bool is_used_again{false};
    bool is_idle() const { return is_kept && num_holders == 0; }
    // The pool's list in which this page waits to be reclaimed. 0: sliding pages not used again, 1: full
    // pages, 2: sliding pages used again.
    int list() const { return kind == LayerKind::kFull ? 1 : is_used_again ? 2 : 0; }
  };
  constexpr int kNumPages{18}, kMostUnused{kNumPages / PagePool::kPagesPerUnused};
  PagePool pool(kNumPages);
  std::map<PageId, Book> books;
  for (int page = 0; page < kNumPages; ++page) books[static_cast<PageId>(page)];
  std::optional<PageId> reclaimed;
  pool.on_reclaim([&](PageId page, LayerKind) { reclaimed = page; });
  std::mt19937 random(1);
  int num_reclaimed[3]{};
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
        if (book.is_kept) pool.touch(page), book.last_use = now, book.is_used_again = true;
        break;
      case 3:
        if (is_there && random() % 2 == 0) pool.share(page), ++book.num_holders, book.is_used_again = true;
        break;
      case 4:
      case 5:
        if (book.num_holders > 0) pool.give_back(page), --book.num_holders, book.last_use = now;
        break;
      default: {
        reclaimed.reset();
        const LayerKind kind = random() % 2 == 0 ? LayerKind::kFull : LayerKind::kSliding;
        const auto num_idle = [&](int list) {
          return std::count_if(books.begin(), books.end(), [&](const auto& entry) {
            return entry.second.is_idle() && entry.second.list() == list;
          });
        };
        const int due = num_idle(0) > kMostUnused ? 0 : num_idle(1) > 0 ? 1 : num_idle(0) > 0 ? 0 : 2;
        const std::optional<PageId> taken = pool.take(kind);
        const auto is_free = [](const auto& entry) { return entry.second.num_holders == 0; };
        ASSERT_EQ(taken.has_value(), std::any_of(books.begin(), books.end(), is_free));
        if (!taken) break;
        ASSERT_EQ(books[*taken].num_holders, 0);
        ASSERT_EQ(reclaimed.has_value(), books[*taken].is_kept);
        if (reclaimed) {
          ASSERT_EQ(books[*taken].list(), due);
        }
        for (const auto& [other, state] : books) {
          if (!reclaimed || state.num_holders > 0) continue;
          ASSERT_TRUE(state.is_kept) << "a worthless one was left";
          if (state.list() != due) continue;
          ASSERT_GE(state.last_use, books[*taken].last_use) << "an older one was left";
        }
        num_reclaimed[due] += reclaimed.has_value();
        books[*taken] = {.num_holders = 1, .is_kept = false, .last_use = now, .kind = kind};
      }
    }
    const auto num_free = std::count_if(books.begin(), books.end(),
                                        [](const auto& entry) { return entry.second.num_holders == 0; });
    ASSERT_EQ(pool.num_free(), num_free);
    ASSERT_EQ(pool.num_held(LayerKind::kFull) + pool.num_held(LayerKind::kSliding), kNumPages - num_free);
  }
  for (const int num : num_reclaimed) EXPECT_GT(num, 100);
}

TEST(PagePoolDeathTest, GivingBackWhatWasNotTakenStopsTheProgram) {
  PagePool pool(2);
  const PageId page = pool.take(LayerKind::kFull).value();
  pool.give_back(page);
  EXPECT_DEATH(pool.give_back(page), "was not taken");
  EXPECT_DEATH(pool.give_back(PageId{2}), "page 2 of 2");
}

}  // namespace
}  // namespace nibble
