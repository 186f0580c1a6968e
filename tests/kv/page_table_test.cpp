// Tests the pages of sequences: pages that the window still reaches are kept, others are freed, and no page
// is lost or held twice.
#include "kv/page_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>

#include "kv/page_counts.h"

namespace nibble {
namespace {

void feed(SequencePages& pages, int num_tokens, int chunk) {
  while (num_tokens > 0) {
    const int now = std::min(chunk, num_tokens);
    ASSERT_TRUE(pages.reserve(now));
    pages.advance(now);
    num_tokens -= now;
  }
}

bool covers(const PageTableView& table, int position) {
  const int page = position / kPageTokens - table.first_page;
  return page >= 0 && page < static_cast<int>(table.pages.size());
}

TEST(SequencePages, HoldOnePageForTheFirst32Positions) {
  PagePool pool(20);
  SequencePages pages(pool, 128);
  EXPECT_TRUE(pages.full().pages.empty());
  feed(pages, 1, 1);
  EXPECT_EQ(pages.full().pages.size(), 1u);
  feed(pages, 31, 31);
  EXPECT_EQ(pages.full().pages.size(), 1u);
  EXPECT_EQ(pages.length(), 32);
  feed(pages, 1, 1);
  EXPECT_EQ(pages.full().pages.size(), 2u);
  EXPECT_EQ(pages.sliding().pages.size(), 2u);
}

// With a window of 128, position p attends to positions p - 127 .. p, so position 158 is the last that needs
// the page of positions 0 .. 31.
TEST(SequencePages, ThePageOf31LeavesAWindowOf128BeforePosition159) {
  PagePool pool(200);
  SequencePages pages(pool, 128);
  feed(pages, 158, 1);
  ASSERT_TRUE(pages.reserve(1));  // for position 158, which attends to position 31
  EXPECT_EQ(pages.sliding().first_page, 0);
  pages.advance(1);
  ASSERT_TRUE(pages.reserve(1));  // for position 159, which attends to positions from 32 on
  EXPECT_EQ(pages.sliding().first_page, 1);
  EXPECT_EQ(pages.full().first_page, 0);
  EXPECT_EQ(pool.num_held(LayerKind::kSliding), 4);  // positions 32 .. 159
  EXPECT_EQ(pool.num_held(LayerKind::kFull), 5);
  EXPECT_EQ(pool.num_free(), 200 - 9);
}

struct WindowCase {
  int window, chunk;
};
class WindowEdges : public testing::TestWithParam<WindowCase> {};

// Every row of a step finds the pages of its window, and the sequence holds no page that no row needs.
TEST_P(WindowEdges, EveryPositionThatAStepSeesIsThereAndNoPageBefore) {
  const auto [window, chunk] = GetParam();
  PagePool pool(200);
  SequencePages pages(pool, window);
  int most_held = 0;
  for (const int length : {127, 128, 129, 300, 700}) {
    while (pages.length() < length) {
      const int now = std::min(chunk, length - pages.length());
      ASSERT_TRUE(pages.reserve(now));
      const int first_seen = std::max(0, pages.length() - window + 1);
      for (int p = first_seen; p < pages.length() + now; ++p) ASSERT_TRUE(covers(pages.sliding(), p)) << p;
      for (int p = 0; p < pages.length() + now; ++p) ASSERT_TRUE(covers(pages.full(), p)) << p;
      ASSERT_EQ(pages.sliding().first_page, first_seen / kPageTokens);
      ASSERT_EQ(static_cast<int>(pages.sliding().pages.size()) + pages.sliding().first_page,
                static_cast<int>(pages.full().pages.size()));
      most_held = std::max(most_held, static_cast<int>(pages.sliding().pages.size()));
      pages.advance(now);
    }
  }
  EXPECT_LE(most_held, max_sliding_pages(window, chunk));
}
INSTANTIATE_TEST_SUITE_P(Windows, WindowEdges,
                         testing::Values(WindowCase{1, 1}, WindowCase{2, 1}, WindowCase{16, 7},
                                         WindowCase{31, 32}, WindowCase{32, 31}, WindowCase{33, 33},
                                         WindowCase{100, 64}, WindowCase{127, 1}, WindowCase{128, 1},
                                         WindowCase{129, 1}, WindowCase{128, 127}, WindowCase{128, 128},
                                         WindowCase{128, 129}, WindowCase{128, 512}),
                         [](const auto& instance) {
                           return "Window" + std::to_string(instance.param.window) + "Chunk" +
                                  std::to_string(instance.param.chunk);
                         });

// max_sliding_pages() is a tight bound: with one page less, some sequence would not fit.
TEST(MaxSlidingPages, IsWhatTheWorstAlignmentNeeds) {
  for (const auto [window, chunk] :
       {WindowCase{1, 1}, {2, 1}, {33, 1}, {34, 1}, {128, 1}, {128, 40}, {100, 64}}) {
    int most_held = 0;
    for (int before = 0; before < 3 * kPageTokens; ++before) {
      PagePool pool(200);
      SequencePages pages(pool, window);
      feed(pages, window + before, 1);
      ASSERT_TRUE(pages.reserve(chunk));
      most_held = std::max(most_held, static_cast<int>(pages.sliding().pages.size()));
    }
    EXPECT_EQ(most_held, max_sliding_pages(window, chunk)) << window << ", " << chunk;
  }
  EXPECT_EQ(max_sliding_pages(128, 1), 5);  // 128 positions can begin inside a page
}

// A sequence alone in a cache of least_pages() pages can run to its end, one token at a time. most_tokens()
// is the inverse of least_pages().
TEST(LeastPages, AreWhatASequenceNeedsInStepsOfOneToken) {
  for (const int window : {1, 16, 33, 128})
    for (const int num_positions : {1, 32, 33, 100, 160, 161, 700}) {
      const int least = least_pages(num_positions, window);
      PagePool pool(least);
      SequencePages pages(pool, window);
      while (pages.length() < num_positions && pages.reserve(1)) pages.advance(1);
      EXPECT_EQ(pages.length(), num_positions) << "window " << window;
      EXPECT_GE(most_tokens(least, window), num_positions);
      EXPECT_LE(least_pages(most_tokens(least, window), window), least);
    }
}

// gpt-oss has a window of 128: a sequence of 32,768 tokens holds 1,024 full and 5 sliding pages.
TEST(KvTokens, CountSequencesOfTheWholeContext) {
  EXPECT_EQ(kv_tokens(1029, 32768, 128), 32768);
  EXPECT_EQ(kv_tokens(8232, 32768, 128), 8 * 32768);
  EXPECT_EQ(kv_tokens(8222, 32768, 128), 8222LL * 32768 / 1029);
  // a text within the window holds the same number of sliding and full pages
  EXPECT_EQ(kv_tokens(20, 32, 128), 10 * 32);
}

TEST(SequencePages, AFailedReserveTakesNothing) {
  PagePool pool(5);
  SequencePages pages(pool, 128);
  feed(pages, 40, 40);
  EXPECT_FALSE(pages.reserve(25));  // for 65 positions: three pages of each kind
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pages.length(), 40);
  EXPECT_TRUE(pages.reserve(24));
}

TEST(SequencePages, AFailedReserveStillGivesBackWhatNoWindowReaches) {
  PagePool pool(5);
  SequencePages pages(pool, 16);
  feed(pages, 96, 32);
  EXPECT_EQ(pool.num_held(LayerKind::kSliding), 2);  // the first page is out of reach from position 64 on
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_FALSE(pages.reserve(1));  // position 96 needs a fourth page of each kind
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(SequencePages, AreGivenBackAtTheEndAndOnlyOnceAfterAMove) {
  PagePool pool(40);
  {
    SequencePages source(pool, 128);
    feed(source, 300, 50);
    SequencePages target(std::move(source));
    EXPECT_EQ(target.length(), 300);
    EXPECT_EQ(pool.num_held(LayerKind::kFull), 10);
  }
  EXPECT_EQ(pool.num_free(), 40);
}

TEST(SequencePagesDeathTest, AdvancingPastWhatWasReservedStopsTheProgram) {
  PagePool pool(4);
  SequencePages pages(pool, 128);
  ASSERT_TRUE(pages.reserve(32));
  EXPECT_DEATH(pages.advance(33), "33 tokens after 0, room for 32");
}

// Sequences start, grow and end at random while the pool is too small for all of them. At every moment each
// page is free or held by exactly one sequence.
TEST(SequencePages, NoPageIsLostOrSharedUnderRandomUse) {
  std::mt19937 random(1);  // makes the same numbers on every platform
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  PagePool pool(85);
  std::list<SequencePages> sequences;
  int num_refused = 0;
  for (int round = 0; round < 20000; ++round) {
    if (const int what = below(20); what == 0) {
      sequences.emplace_back(pool, 1 + below(150));
    } else if (!sequences.empty()) {
      const auto chosen = std::next(sequences.begin(), below(static_cast<int>(sequences.size())));
      if (what == 1 || chosen->length() > 1000) {
        sequences.erase(chosen);
      } else if (const int num_tokens = below(3) == 0 ? 1 + below(100) : 1; chosen->reserve(num_tokens)) {
        chosen->advance(num_tokens);
      } else {
        ++num_refused;
      }
    }
    std::set<PageId> held;
    size_t num_held = 0;
    for (const SequencePages& pages : sequences)
      for (const PageTableView& table : {pages.full(), pages.sliding()}) {
        held.insert(table.pages.begin(), table.pages.end());
        num_held += table.pages.size();
      }
    ASSERT_EQ(held.size(), num_held) << "a page is shared";
    ASSERT_EQ(pool.num_free() + static_cast<int>(num_held), 85);
  }
  EXPECT_GT(num_refused, 100);  // the pool ran out
  sequences.clear();
  EXPECT_EQ(pool.num_free(), 85);
}

}  // namespace
}  // namespace nibble
