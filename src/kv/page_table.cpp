#include "kv/page_table.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"

namespace nibble {
namespace {

// Gives back the last page first, so that the pool reclaims the end of a text first (prefix_cache.h).
void give_back(PagePool& pool, std::span<const PageId> pages) {
  for (; !pages.empty(); pages = pages.first(pages.size() - 1)) pool.give_back(pages.back());
}

// Reserves capacity, growing geometrically like push_back().
void reserve_places(std::vector<PageId>& pages, int num_pages) {
  const auto wanted = static_cast<size_t>(std::max(num_pages, 0));
  if (wanted > pages.capacity()) pages.reserve(std::max(wanted, 2 * pages.capacity()));
}

}  // namespace

SequencePages::SequencePages(PagePool& pool, int window) : pool_(&pool), window_(window) {
  NIBBLE_CHECK(window > 0, "window {}", window);
}

SequencePages::SequencePages(SequencePages&&) noexcept = default;  // the source has no pages afterwards

SequencePages::~SequencePages() {
  give_back(*pool_, full_);
  give_back(*pool_, sliding_);
}

void SequencePages::resume(const Prefix& prefix) {
  NIBBLE_CHECK(full_.empty() && length_ == 0, "the sequence already has {} positions", length_);
  // Copy first: if a copy throws, no page has been shared.
  std::vector<PageId> full = prefix.full, sliding = prefix.sliding;
  full_ = std::move(full);
  sliding_ = std::move(sliding);
  for (const PageId page : full_) pool_->share(page);
  for (const PageId page : sliding_) pool_->share(page);
  first_sliding_page_ = prefix.first_sliding_page();
  length_ = prefix.num_tokens();
  num_known_pages_ = full_.size();
}

void SequencePages::drop_sliding_before(int page) {
  const auto end = sliding_.begin() + (page - first_sliding_page_);
  give_back(*pool_, {sliding_.begin(), end});
  sliding_.erase(sliding_.begin(), end);
  first_sliding_page_ = page;
}

bool SequencePages::reserve(int num_tokens) {
  NIBBLE_CHECK(num_tokens >= 0, "{} tokens", num_tokens);
  if (num_tokens > make_room()) return false;
  const int num_pages = num_pages_for(length_ + num_tokens);
  // full_ and sliding_ always end at the same page, so full_ alone shows whether the pages suffice.
  if (num_pages <= static_cast<int>(full_.size())) return true;
  // Reserve capacity before taking pages: a taken page would leak if push_back() threw.
  reserve_places(full_, num_pages);
  reserve_places(sliding_, num_pages - first_sliding_page_);
  while (static_cast<int>(full_.size()) < num_pages) full_.push_back(*pool_->take(LayerKind::kFull));
  while (first_sliding_page_ + static_cast<int>(sliding_.size()) < num_pages)
    sliding_.push_back(*pool_->take(LayerKind::kSliding));
  return true;
}

void SequencePages::advance(int num_tokens) {
  NIBBLE_CHECK(num_tokens >= 0 && num_pages_for(length_ + num_tokens) <= static_cast<int>(full_.size()),
               "{} tokens after {}, room for {}", num_tokens, length_, full_.size() * kPageTokens);
  length_ += num_tokens;
}

void SequencePages::give_back_unfilled(int num_kept) {
  const size_t num_full = std::min(full_.size(), static_cast<size_t>(num_pages_for(length_ + num_kept)));
  const size_t num_sliding = num_full - static_cast<size_t>(first_sliding_page_);
  give_back(*pool_, std::span(full_).subspan(num_full));
  give_back(*pool_, std::span(sliding_).subspan(num_sliding));
  full_.resize(num_full);
  sliding_.resize(num_sliding);
}

void SequencePages::add_to(PrefixCache& cache, std::span<const TokenId> tokens, std::string_view salt) {
  const size_t num_whole = std::min(static_cast<size_t>(length_), tokens.size()) / kPageTokens;
  for (size_t& i = num_known_pages_; i < num_whole; ++i) {
    const PrefixCache::Pages mine{full_[i], sliding_.at(i - static_cast<size_t>(first_sliding_page_))};
    const auto before = i == 0 ? std::nullopt : std::optional(full_[i - 1]);
    const PrefixCache::Pages known =
        cache.add(before, tokens.subspan(i * kPageTokens, kPageTokens), mine, salt);
    if (known.full != mine.full) {
      pool_->share(known.full);
      pool_->give_back(mine.full);
      full_[i] = known.full;
    }
    if (known.sliding != mine.sliding) {
      pool_->share(known.sliding);
      pool_->give_back(mine.sliding);
      sliding_[i - static_cast<size_t>(first_sliding_page_)] = known.sliding;
    }
  }
}

}  // namespace nibble
