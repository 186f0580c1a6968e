// Tests shared pages: a hit always has the same text from its first token on, no page held by a sequence is
// overwritten or lost, and the least recently used page is reclaimed first.
#include "kv/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <random>

#include "kv/page_table.h"

namespace nibble {
namespace {

using Tokens = std::vector<TokenId>;

Tokens text(int num_tokens, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(num_tokens));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Kv {
  Kv(int num_pages, int given_window, PageHash hash = page_hash)
      : pool(num_pages), window(given_window), cache(pool, window, hash) {}

  // Reuses the cached prefix of `tokens` and runs the rest in chunks.
  SequencePages run(const Tokens& tokens, int chunk = 20, std::string_view salt = {}) {
    SequencePages pages(pool, window);
    pages.resume(cache.find(tokens, salt));
    feed(pages, tokens, chunk, salt);
    return pages;
  }
  void feed(SequencePages& pages, const Tokens& tokens, int chunk, std::string_view salt = {}) {
    while (pages.length() < static_cast<int>(tokens.size())) {
      const int now = std::min(chunk, static_cast<int>(tokens.size()) - pages.length());
      if (!pages.reserve(now)) FAIL() << "no page left";
      pages.advance(now);
      pages.add_to(cache, tokens, salt);
    }
  }
  int num_found(const Tokens& tokens, std::string_view salt = {}) const {
    return cache.find(tokens, salt).num_tokens();
  }

  PagePool pool;
  int window;
  PrefixCache cache;
};

TEST(PrefixCache, ASequenceContinuesAfterTheWholePagesOfAnother) {
  Kv kv(20, 128);
  const SequencePages first = kv.run(text(100));
  const SequencePages second = kv.run(text(100));
  EXPECT_EQ(kv.num_found(text(100)), 96);
  for (size_t page = 0; page < 3; ++page) {
    EXPECT_EQ(first.full().pages[page], second.full().pages[page]);
    EXPECT_EQ(first.sliding().pages[page], second.sliding().pages[page]);
  }
  // The page of the last four tokens, which each sequence ran itself, is not shared.
  EXPECT_NE(first.full().pages[3], second.full().pages[3]);
  EXPECT_EQ(kv.pool.num_free(), 20 - 2 * 5);
}

TEST(PrefixCache, TheLastTokenIsAlwaysRun) {
  Kv kv(20, 128);
  const SequencePages first = kv.run(text(96));
  EXPECT_EQ(kv.num_found(text(96)), 64);
  EXPECT_EQ(kv.num_found(text(97)), 96);
  EXPECT_EQ(kv.num_found(text(32)), 0);
  EXPECT_EQ(kv.num_found({}), 0);
}

TEST(PrefixCache, APageIsFoundOnlyAfterTheSamePrefix) {
  Kv kv(40, 128);
  const SequencePages first = kv.run(text(128));
  EXPECT_EQ(kv.num_found(text(40) + Tokens{7} + text(100, 41)), 32);
  EXPECT_EQ(kv.num_found(text(96, 32)), 0) << "the second page's tokens, but at the start";
  EXPECT_EQ(kv.num_found(text(32, 500) + text(96, 32)), 0) << "behind other tokens";
}

TEST(PrefixCache, WhatIsNotYetRunIsNotKnown) {
  Kv kv(20, 128);
  SequencePages pages(kv.pool, 128);
  ASSERT_TRUE(pages.reserve(64));
  EXPECT_EQ(kv.num_found(text(65)), 0);
  pages.advance(40);
  pages.add_to(kv.cache, text(40));
  EXPECT_EQ(kv.num_found(text(65)), 32);
}

TEST(PrefixCache, PagesStayKnownWhenTheirSequenceIsGone) {
  Kv kv(20, 128);
  kv.run(text(100));
  EXPECT_EQ(kv.pool.num_free(), 20);
  EXPECT_EQ(kv.num_found(text(200)), 96);
  const SequencePages again = kv.run(text(200));
  EXPECT_EQ(again.length(), 200);
}

TEST(PrefixCache, PagesThatTwoFilledAtTheSameTimeBecomeOne) {
  Kv kv(40, 128);
  SequencePages a(kv.pool, 128), b(kv.pool, 128);
  for (SequencePages* pages : {&a, &b}) {
    ASSERT_TRUE(pages->reserve(70));
    pages->advance(70);
  }
  EXPECT_EQ(kv.pool.num_free(), 40 - 2 * 6);
  a.add_to(kv.cache, text(70));
  b.add_to(kv.cache, text(70));
  EXPECT_EQ(a.full().pages[1], b.full().pages[1]);
  EXPECT_EQ(a.sliding().pages[1], b.sliding().pages[1]);
  EXPECT_EQ(kv.pool.num_free(), 40 - 2 * 4);
}

TEST(PrefixCache, GoingOnNeedsTheSlidingPagesOfTheWindowAndNoOthers) {
  Kv kv(40, 64);  // position 320 attends to positions 257 to 320, in pages 8, 9 and 10
  const SequencePages pages = kv.run(text(330));
  const Prefix known = kv.cache.find(text(330));
  EXPECT_EQ(known.full.size(), 10u);
  EXPECT_EQ(known.sliding.size(), 2u);
  EXPECT_EQ(known.first_sliding_page(), 8);
}

// The full pages of the text leave room for little more than one window of sliding pages. So only the end of
// the text can be continued.
TEST(PrefixCache, WhereTheSlidingPagesAreGoneNothingIsShared) {
  Kv kv(32 + 4, 64);
  kv.run(text(1000), 8);
  EXPECT_EQ(kv.num_found(text(1000)), 992);
  EXPECT_EQ(kv.num_found(text(500)), 0);  // although the full pages of these tokens are cached
  EXPECT_EQ(kv.num_found(text(500) + text(500, 5000)), 0);
}

TEST(PrefixCache, WhatIsTouchedOutlivesWhatWasUsedLater) {
  Kv kv(47 + 8, 64);
  SequencePages pages = kv.run(text(200), 8);
  const Tokens whole = text(1500);
  while (pages.length() < 1500) {
    pages.make_room();
    kv.cache.touch_sliding(pages.full().pages.subspan(4, 2));  // the pages that position 192 reaches
    kv.feed(pages, text(pages.length() + 1), 1);
  }
  EXPECT_EQ(kv.num_found(text(200)), 192);
  EXPECT_EQ(kv.num_found(text(700)), 192);  // all sliding pages between 192 and 700 were reclaimed
}

// After clear(), sequences fill the pages with other texts. The cache must not touch such a page for its
// earlier text, even before the new text is added to the cache.
TEST(PrefixCache, AfterClearNoSlidingPageOfAnEarlierTextIsTouched) {
  Kv kv(20, 16);
  kv.run(text(320));
  kv.cache.clear();
  EXPECT_EQ(kv.num_found(text(400)), 0);
  SequencePages pages(kv.pool, 16);
  ASSERT_TRUE(pages.reserve(64));
  pages.advance(64);
  kv.cache.touch_sliding(pages.full().pages);
  pages.add_to(kv.cache, text(64, 7));
  EXPECT_EQ(kv.num_found(text(65, 7)), 64);
}

TEST(PrefixCache, ATextIsForgottenFromItsEnd) {
  Kv kv(20, 16);
  {
    const SequencePages pages = kv.run(text(320));  // 10 pages of each kind, that is all pages
    kv.cache.touch_sliding(pages.full().pages);
  }
  EXPECT_EQ(kv.num_found(text(400)), 320);
  kv.run(text(64, 9000));  // reclaims two pages of each kind
  EXPECT_EQ(kv.pool.num_free(), 20);
  EXPECT_EQ(kv.num_found(text(400)), 256);
  EXPECT_EQ(kv.num_found(text(65, 9000)), 64);
}

// To continue a long text, all its full pages must be cached, but only the sliding pages at its end.
TEST(PrefixCache, SlidingPagesThatWereNotUsedAgainGoBeforeFullPages) {
  Kv kv(20, 16);
  kv.run(text(320));
  kv.run(text(96, 9000), 32);  // takes six pages, all of them sliding pages of the first text
  EXPECT_EQ(kv.num_found(text(400)), 320);
  EXPECT_EQ(kv.num_found(text(97, 9000)), 96);
}

// The first text is found again at position 320, so its sliding pages there outlive many new texts.
TEST(PrefixCache, APrefixThatWasFoundIsFoundAgainAsLongAsItsFullPagesLast) {
  Kv kv(60, 16);
  kv.run(text(330));
  kv.run(text(320) + text(10, 500));
  for (TokenId n = 1; n <= 4; ++n) kv.run(text(160, 1000 * n));  // 40 pages
  EXPECT_EQ(kv.num_found(text(400)), 320);
}

TEST(PrefixCache, OfTwoTextsTheOneUsedLongerAgoIsForgottenFirst) {
  Kv kv(20, 128);
  kv.run(text(128));
  kv.run(text(128, 5000));
  kv.run(text(128));         // used again, so the other text is now older
  kv.run(text(128, 10000));  // takes 8 pages: 4 without cached tokens, and 4 that it reclaims
  EXPECT_EQ(kv.num_found(text(129)), 128);
  EXPECT_LT(kv.num_found(text(129, 5000)), 128);
  EXPECT_EQ(kv.num_found(text(129, 10000)), 128);
}

TEST(PrefixCache, ACollisionIsNoHit) {
  Kv kv(60, 128, [](uint64_t, std::span<const TokenId>) -> uint64_t { return 42; });
  const SequencePages a = kv.run(text(100)), b = kv.run(text(100, 1000)), c = kv.run(text(50) + text(50, 70));
  EXPECT_EQ(kv.num_found(text(101)), 96);
  EXPECT_EQ(kv.num_found(text(101, 1000)), 96);
  EXPECT_EQ(kv.num_found(text(50) + text(51, 70)), 96);
  EXPECT_EQ(kv.num_found(text(101, 2000)), 0);
  EXPECT_EQ(kv.num_found(text(64) + text(40, 1064)), 64);
}

TEST(PrefixCache, ATextIsKnownUnderItsOwnSaltOnly) {
  const PageHash all_equal = [](uint64_t, std::span<const TokenId>) -> uint64_t { return 42; };
  for (const PageHash hash : {PageHash{page_hash}, all_equal}) {
    Kv kv(60, 128, hash);
    const SequencePages plain = kv.run(text(100)), salted = kv.run(text(100), 20, "a");
    for (const PageId page : plain.full().pages)
      EXPECT_THAT(salted.full().pages, testing::Not(testing::Contains(page)));
    EXPECT_EQ(kv.num_found(text(101)), 96);
    EXPECT_EQ(kv.num_found(text(101), "a"), 96);
    EXPECT_EQ(kv.num_found(text(101), "b"), 0);
    EXPECT_EQ(kv.num_found(text(101), std::string_view("a\0", 2)), 0);
    const SequencePages same = kv.run(text(100), 20, "a");
    EXPECT_EQ(same.full().pages[2], salted.full().pages[2]);
  }
}

// A store in which every position holds a fingerprint of the text up to it. Sequences start, share, grow and
// end at random, and texts often branch off each other. At every moment, every position that a sequence sees
// must hold the fingerprint of its own text.
class Random {
 public:
  explicit Random(PageHash hash, int window) : kv_(48, window, hash), random_(1) {}

  void run(int num_rounds) {
    for (int round = 0; round < num_rounds && !testing::Test::HasFatalFailure(); ++round) {
      if (const int what = below(12); what == 0 && sequences_.size() < 6) {
        begin();
      } else if (!sequences_.empty()) {
        const auto chosen = std::next(sequences_.begin(), below(static_cast<int>(sequences_.size())));
        if (what == 1 || chosen->pages.length() > 500)
          sequences_.erase(chosen);
        else
          grow(*chosen);
      }
      check();
    }
    EXPECT_GT(num_hits_, 100);
    EXPECT_GT(num_refused_, 10);  // the pool ran out
    sequences_.clear();
    EXPECT_EQ(kv_.pool.num_free(), kv_.pool.num_pages());
  }

 private:
  struct Sequence {
    Tokens tokens;
    SequencePages pages;
  };
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void begin() {
    Tokens tokens;
    if (!texts_.empty() && below(4) != 0) {
      tokens = texts_[static_cast<size_t>(below(static_cast<int>(texts_.size())))];
      tokens.resize(static_cast<size_t>(below(static_cast<int>(tokens.size()) + 1)));
    }
    const int num_tokens = static_cast<int>(tokens.size()) + 1 + below(100);
    while (static_cast<int>(tokens.size()) < num_tokens) tokens.push_back(below(50));
    if (texts_.size() < 8)
      texts_.push_back(tokens);
    else
      texts_[static_cast<size_t>(below(8))] = tokens;
    sequences_.push_back({tokens, SequencePages(kv_.pool, kv_.window)});
    const Prefix known = kv_.cache.find(tokens);
    ASSERT_LT(known.num_tokens(), num_tokens);
    num_hits_ += known.num_tokens() > 0;
    sequences_.back().pages.resume(known);
  }
  void grow(Sequence& sequence) {
    SequencePages& pages = sequence.pages;
    const int num_tokens = below(3) == 0 ? 1 + below(80) : 1;
    while (static_cast<int>(sequence.tokens.size()) < pages.length() + num_tokens)
      sequence.tokens.push_back(below(50));
    if (!pages.reserve(num_tokens)) {
      ++num_refused_;
      return;
    }
    for (int p = pages.length(); p < pages.length() + num_tokens; ++p) {
      for (const Sequence& other : sequences_) {
        if (&other == &sequence) continue;
        for (const PageTableView& held : {other.pages.full(), other.pages.sliding()})
          for (const PageTableView& written : {pages.full(), pages.sliding()})
            ASSERT_FALSE(holds(held, written, p)) << "written by one, held by another";
      }
      cells_[cell(pages.full(), p)] = cells_[cell(pages.sliding(), p)] = fingerprint(sequence.tokens, p);
    }
    pages.advance(num_tokens);
    pages.add_to(kv_.cache, sequence.tokens);
  }
  static PageId page_of(const PageTableView& table, int position) {
    return table.pages[static_cast<size_t>(position / kPageTokens - table.first_page)];
  }
  static bool holds(const PageTableView& table, const PageTableView& written, int position) {
    return std::find(table.pages.begin(), table.pages.end(), page_of(written, position)) != table.pages.end();
  }
  static std::pair<PageId, int> cell(const PageTableView& table, int position) {
    return {page_of(table, position), position % kPageTokens};
  }
  static Tokens fingerprint(const Tokens& tokens, int position) {
    return {tokens.begin(), tokens.begin() + position + 1};
  }
  void check() {
    for (const Sequence& sequence : sequences_) {
      const int length = sequence.pages.length();
      if (length == 0) continue;
      // The fingerprint of a position depends on all positions before it, so the last one covers the whole
      // text.
      for (int p = kPageTokens - 1; p < length; p += kPageTokens)
        ASSERT_EQ(cells_[cell(sequence.pages.full(), p)], fingerprint(sequence.tokens, p));
      ASSERT_EQ(cells_[cell(sequence.pages.full(), length - 1)], fingerprint(sequence.tokens, length - 1));
      for (int p = std::max(0, length - kv_.window + 1); p < length; ++p)
        ASSERT_EQ(cells_[cell(sequence.pages.sliding(), p)], fingerprint(sequence.tokens, p));
    }
  }

  Kv kv_;
  std::mt19937 random_;
  std::vector<Tokens> texts_;
  std::list<Sequence> sequences_;
  std::map<std::pair<PageId, int>, Tokens> cells_;
  int num_hits_{0}, num_refused_{0};
};

TEST(PrefixCache, NeverMixesTextsUnderRandomUse) {
  for (const int window : {1, 16, 33, 128}) Random(page_hash, window).run(10000);
}

TEST(PrefixCache, NeverMixesTextsWhereAllHashesCollide) {
  Random([](uint64_t, std::span<const TokenId> tokens) { return static_cast<uint64_t>(tokens[0] % 2); }, 33)
      .run(10000);
}

}  // namespace
}  // namespace nibble
