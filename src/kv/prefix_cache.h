// Finds the pages of a known prefix, so that a sequence with the same prefix need not compute it again.
// The content of a page depends on its tokens and on all tokens before it. So a TokenRun (the kPageTokens
// tokens of a page) is identified by its tokens and the page before it. The first TokenRun of a text is also
// identified by its request's salt: requests with different salts share no page. Lookups use a chained hash,
// but also compare tokens, previous page and salt, so a collision costs time and is never a wrong hit. To
// continue at position p, a sequence needs all full pages before p, but only the sliding pages that the
// window of p reaches. So a TokenRun stays known after its sliding page is reclaimed. A sequence that holds a
// page also holds the page before it, and gives back later pages first. So the pool reclaims the end of a
// text first.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokens/token.h"
#include "kv/page_pool.h"
#include "model/batch.h"

namespace nibble {

using PageHash = uint64_t (*)(uint64_t hash_before, std::span<const TokenId> tokens);
uint64_t page_hash(uint64_t hash_before, std::span<const TokenId> tokens);

// Pages that a sequence may share: all full pages before a position, and sliding pages in its window.
struct Prefix {
  std::vector<PageId> full{}, sliding{};
  int num_tokens() const { return static_cast<int>(full.size()) * kPageTokens; }
  int first_sliding_page() const { return static_cast<int>(full.size() - sliding.size()); }
};

class PrefixCache {
 public:
  // `window`: number of positions that a sliding layer attends to. The pool must outlive the cache, and
  // informs the cache of each page that it reclaims. `hash`: only tests replace it, to force collisions.
  PrefixCache(PagePool& pool, int window, PageHash hash = page_hash);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Returns the longest prefix known under `salt` that a sequence can continue. The prefix never includes the
  // last token, which must run to predict the next one. The pages of the prefix may be reclaimed until a
  // sequence shares them.
  Prefix find(std::span<const TokenId> tokens, std::string_view salt = {}) const;

  struct Pages {
    PageId full, sliding;
  };
  // Adds the two pages in `filled`, which hold the keys and values of `tokens` (kPageTokens of them).
  // `before`: the page of full-attention layers of the tokens before them, as returned by add(); empty at the
  // start of a text. Returns the pages to use from now on: `filled`, or equal pages that a sequence of the
  // same salt added earlier.
  Pages add(std::optional<PageId> before, std::span<const TokenId> tokens, Pages filled,
            std::string_view salt = {});

  // For each page in `full`, marks the cached sliding page of the same tokens as most recently used.
  void touch_sliding(std::span<const PageId> full);

  void clear();

 private:
  struct TokenRun {  // stored at the pool's index of its full-attention page
    uint64_t hash;
    std::optional<PageId> before, sliding;
    std::string salt;  // salt of the text's requests; set only for the first page of a text
    std::array<TokenId, kPageTokens> tokens;
    int num_after;  // number of cached TokenRuns whose `before` is this one
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
  std::vector<PageId>
      full_of_;  // [index in the pool of a cached sliding page]: the full-attention page of its TokenRun
  std::unordered_multimap<uint64_t, PageId> full_by_hash_;
};

}  // namespace nibble
