// Finds the pages of a known prefix of a text, so that a sequence with the same prefix need not compute it
// again.
//
// The content of a page depends on its tokens and all tokens before it. So a page, in both kinds of layer, is
// identified by its own kPageTokens tokens (a run) and the page before it; the first page also by the salt of
// its request, so requests with different salts share no page. The key is a chained hash. The lookup also
// compares the tokens, the page before (which was found in the same way) and the salt: a hash collision costs
// time but is never a wrong hit.
//
// To continue at position p, a sequence needs all full pages before p, but only the sliding pages that p's
// window reaches. A run stays known as long as its full page is; its sliding page may be reclaimed earlier.
// Every sequence that holds a page also holds the page before it, and gives back the later one first. So the
// pool, which reclaims the least recently used page, reclaims the end of a text before its beginning.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/token.h"
#include "kv/page_pool.h"
#include "model/batch.h"

namespace nibble {

using PageHash = uint64_t (*)(uint64_t hash_before, std::span<const TokenId> tokens);
uint64_t page_hash(uint64_t hash_before, std::span<const TokenId> tokens);

// The pages that a sequence may share: all full pages before a position, and the sliding pages that its
// window reaches.
struct Prefix {
  std::vector<PageId> full{}, sliding{};
  int num_tokens() const { return static_cast<int>(full.size()) * kPageTokens; }
  int first_sliding_page() const { return static_cast<int>(full.size() - sliding.size()); }
};

class PrefixCache {
 public:
  // `window`: positions that a sliding layer attends to. The pool must outlive the cache; it calls it for
  // each page that it reclaims. Tests pass a hash that collides.
  PrefixCache(PagePool& pool, int window, PageHash hash = page_hash);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Returns the longest prefix of `tokens` that is known under this salt and that a sequence can continue.
  // Never all tokens, because the last one must run to predict the next. The pages may be reclaimed until a
  // sequence shares them.
  Prefix find(std::span<const TokenId> tokens, std::string_view salt = {}) const;

  struct Pages {
    PageId full, sliding;
  };
  // Adds a page of each kind, `filled` with the kPageTokens tokens in `tokens`. `before`: the full page
  // before it, as returned by add(); none at the start of a text. Returns the pages to use for these tokens
  // from now on: `filled`, or pages that another sequence of the same salt filled with the same tokens
  // earlier. Both have the same bits.
  Pages add(std::optional<PageId> before, std::span<const TokenId> tokens, Pages filled,
            std::string_view salt = {});

  // Marks the sliding pages of these runs, given by their full pages, as most recently used if they are still
  // cached.
  void touch_sliding(std::span<const PageId> full);

  void clear();

 private:
  struct TokenRun {  // stored at the index of its full page in the pool
    uint64_t hash;
    std::optional<PageId> before, sliding;
    std::string salt;  // only of a first page; later pages are identified through the page before
    std::array<TokenId, kPageTokens> tokens;
    int num_after;  // number of runs that follow this one
  };
  TokenRun& at(PageId full) { return runs_[pool_->index_of(full)]; }
  const TokenRun& at(PageId full) const { return runs_[pool_->index_of(full)]; }
  uint64_t hash_of(std::optional<PageId> before, std::span<const TokenId> tokens,
                   std::string_view salt) const;
  std::optional<PageId> find_run(std::optional<PageId> before, std::span<const TokenId> tokens,
                                 std::string_view salt) const;
  void forget_full(PageId page);
  void forget_sliding(PageId page);

  PagePool* pool_;
  int window_;
  PageHash hash_;
  std::vector<TokenRun> runs_;
  std::vector<PageId> full_of_;  // by index of a kept sliding page: the full page of its run
  std::unordered_multimap<uint64_t, PageId> full_by_hash_;
};

}  // namespace nibble
