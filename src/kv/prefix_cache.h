// Which pages hold the beginning of which text, so that a sequence with the same beginning need not run it again.
//
// What is in a page follows from its tokens and all tokens before it. So a page is found by its own kPageTokens tokens and
// the page before it, in both kinds of layer. The key is a chained hash; tokens and the page before are compared as well,
// and the page before was found so too: a collision costs time and is never a wrong hit.
//
// To go on at position p a sequence needs all full pages before p, but of the sliding ones only those that p's window
// reaches. A run of tokens is known as long as its full page is; its sliding page may have gone before it.
// Every sequence that holds a page holds the one before it as well, and gives back the later one first: the pool, which
// reclaims by last use, comes to the end of a text before its beginning.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/token.h"
#include "kv/page_pool.h"
#include "model/batch.h"

namespace nibble {

using PageHash = uint64_t (*)(uint64_t hash_before, std::span<const TokenId> tokens);
uint64_t page_hash(uint64_t hash_before, std::span<const TokenId> tokens);

// Whole pages that a sequence may share: all full pages before a position, the sliding pages that its window reaches.
struct Prefix {
  std::vector<PageId> full{}, sliding{};
  int num_tokens() const { return static_cast<int>(full.size()) * kPageTokens; }
  int first_sliding_page() const { return static_cast<int>(full.size() - sliding.size()); }
};

class PrefixCache {
 public:
  // `window`: of the sliding layers. Both pools outlive the cache, which is told by them what they reclaim. Tests give
  // another hash, one that collides.
  PrefixCache(PagePool& full, PagePool& sliding, int window, PageHash hash = page_hash);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest known beginning of `tokens` that a sequence can go on behind; never all of them, since the last must be
  // run to know what follows. The pages may be reclaimed until somebody shares them.
  Prefix find(std::span<const TokenId> tokens) const;

  struct Pages {
    PageId full, sliding;
  };
  // A sequence has filled a page of each kind with `tokens`, kPageTokens of them, behind those of `before` (a full page that
  // add answered; nothing at the start of a text). Answers the pages in which they are known from now on: `filled`, or those
  // that another sequence has filled with the same before. Both have the same bits.
  Pages add(std::optional<PageId> before, std::span<const TokenId> tokens, Pages filled);

  // The sliding pages of these runs, named by their full pages, count as used now: those that are still there.
  void touch_sliding(std::span<const PageId> full);

 private:
  struct TokenRun {  // at the index of its full page
    uint64_t hash;
    std::optional<PageId> before, sliding;
    std::array<TokenId, kPageTokens> tokens;
    int num_after;  // runs that say it is before them
  };
  TokenRun& at(PageId full) { return runs_[static_cast<size_t>(full)]; }
  const TokenRun& at(PageId full) const { return runs_[static_cast<size_t>(full)]; }
  uint64_t hash_of(std::optional<PageId> before, std::span<const TokenId> tokens) const;
  std::optional<PageId> find_run(std::optional<PageId> before, std::span<const TokenId> tokens) const;
  void forget_full(PageId page);
  void forget_sliding(PageId page);

  PagePool* full_pool_;
  PagePool* sliding_pool_;
  int window_;
  PageHash hash_;
  std::vector<TokenRun> runs_;
  std::vector<PageId> full_of_;  // at the index of a kept sliding page: the full page of its run
  std::unordered_multimap<uint64_t, PageId> full_by_hash_;
};

}  // namespace nibble
