#include "kv/prefix_cache.h"

#include <algorithm>
#include <functional>

#include "core/errors/check.h"
#include "core/numbers/random.h"
#include "kv/page_counts.h"

namespace nibble {

uint64_t page_hash(uint64_t hash_before, std::span<const TokenId> tokens) {
  uint64_t hash = mix64(hash_before);
  for (const TokenId token : tokens) hash = mix64(hash ^ static_cast<uint64_t>(token));
  return hash;
}

PrefixCache::PrefixCache(PagePool& pool, int window, PageHash hash)
    : pool_(&pool),
      window_(window),
      hash_(hash),
      runs_(static_cast<size_t>(pool.num_pages())),
      full_of_(static_cast<size_t>(pool.num_pages())) {
  pool.on_reclaim([this](PageId page, LayerKind kind) {
    if (kind == LayerKind::kFull)
      forget_full(page);
    else
      forget_sliding(page);
  });
}

uint64_t PrefixCache::hash_of(std::optional<PageId> before, std::span<const TokenId> tokens,
                              std::string_view salt) const {
  return hash_(before ? at(*before).hash : std::hash<std::string_view>{}(salt), tokens);
}

std::optional<PageId> PrefixCache::find_run(std::optional<PageId> before, std::span<const TokenId> tokens,
                                            std::string_view salt) const {
  const auto [first, last] = full_by_hash_.equal_range(hash_of(before, tokens, salt));
  for (auto candidate = first; candidate != last; ++candidate) {
    const TokenRun& run = at(candidate->second);
    const bool is_same_text =
        run.before == before && std::equal(tokens.begin(), tokens.end(), run.tokens.begin());
    if (is_same_text && (before || run.salt == salt)) return candidate->second;
  }
  return std::nullopt;
}

Prefix PrefixCache::find(std::span<const TokenId> tokens, std::string_view salt) const {
  Prefix known;
  std::vector<PageId> sliding;  // sliding pages found since the last TokenRun without one
  size_t num_full = 0;
  while (tokens.size() > static_cast<size_t>(kPageTokens)) {
    const auto before = known.full.empty() ? std::nullopt : std::optional(known.full.back());
    const auto run = find_run(before, tokens.first(kPageTokens), salt);
    if (!run) break;
    tokens = tokens.subspan(kPageTokens);
    known.full.push_back(*run);
    if (const auto page = at(*run).sliding)
      sliding.push_back(*page);
    else
      sliding.clear();
    const int num_needed =
        static_cast<int>(known.full.size()) - first_reached_page(known.num_tokens(), window_);
    if (static_cast<int>(sliding.size()) < num_needed) continue;
    num_full = known.full.size();
    known.sliding.assign(sliding.end() - num_needed, sliding.end());
  }
  known.full.resize(num_full);
  return known;
}

PrefixCache::Pages PrefixCache::add(std::optional<PageId> before, std::span<const TokenId> tokens,
                                    Pages filled, std::string_view salt) {
  NIBBLE_CHECK(tokens.size() == static_cast<size_t>(kPageTokens), "{} tokens", tokens.size());
  NIBBLE_CHECK(!before || pool_->is_kept(*before), "the previous page is not in the cache");
  std::optional<PageId> full = find_run(before, tokens, salt);
  if (!full) {
    full = filled.full;
    const uint64_t hash = hash_of(before, tokens, salt);
    std::string own_salt(before ? "" : salt);
    full_by_hash_.emplace(hash, *full);  // nothing after this call can throw
    pool_->keep(*full);
    TokenRun& run = at(*full);
    run = {.hash = hash,
           .before = before,
           .sliding = {},
           .salt = std::move(own_salt),
           .tokens = {},
           .num_after = 0};
    std::ranges::copy(tokens, run.tokens.begin());
    if (before) ++at(*before).num_after;
  }
  TokenRun& run = at(*full);
  if (!run.sliding) {
    pool_->keep(filled.sliding);
    run.sliding = filled.sliding;
    full_of_[pool_->index_of(filled.sliding)] = *full;
  }
  return {*full, *run.sliding};
}

void PrefixCache::touch_sliding(std::span<const PageId> full) {
  for (const PageId page : full)
    if (const auto sliding = at(page).sliding) pool_->touch(*sliding);
}

void PrefixCache::clear() {
  full_by_hash_.clear();
  for (TokenRun& run : runs_) run.sliding.reset();
  for (size_t i = 0; i < static_cast<size_t>(pool_->num_pages()); ++i)
    if (pool_->is_kept(pool_->page_at(i))) pool_->forget(pool_->page_at(i));
}

void PrefixCache::forget_full(PageId page) {
  TokenRun& run = at(page);
  NIBBLE_CHECK(run.num_after == 0, "page {} is dropped before the pages that follow it",
               static_cast<size_t>(page));
  if (run.before) --at(*run.before).num_after;
  // Without its full page, no sequence can continue the text, so the sliding page is useless too.
  if (run.sliding) pool_->forget(*run.sliding);
  run.sliding.reset();
  const auto [first, last] = full_by_hash_.equal_range(run.hash);
  full_by_hash_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == page; }));
}

void PrefixCache::forget_sliding(PageId page) { at(full_of_[pool_->index_of(page)]).sliding.reset(); }

}  // namespace nibble
