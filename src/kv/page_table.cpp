#include "kv/page_table.h"

#include <algorithm>

#include "core/check.h"

namespace nibble {
namespace {

void give_back(PagePool& pool, std::span<const PageId> pages) {
  for (const PageId page : pages) pool.give_back(page);
}

}  // namespace

SequencePages::SequencePages(PagePool& full, PagePool& sliding, int window)
    : full_pool_(&full), sliding_pool_(&sliding), window_(window) {
  NIBBLE_CHECK(window > 0, "window {}", window);
}

// A vector that was moved from is empty: the source holds no page any more.
SequencePages::SequencePages(SequencePages&&) noexcept = default;

SequencePages::~SequencePages() {
  give_back(*full_pool_, full_);
  give_back(*sliding_pool_, sliding_);
}

bool SequencePages::reserve(int num_tokens) {
  NIBBLE_CHECK(num_tokens >= 0, "{} tokens", num_tokens);
  // Position length_ sees window_ positions, itself included; later ones see nothing before those.
  const int first_reached_page = std::max(0, length_ - (window_ - 1)) / kPageTokens;
  if (const int num_left = first_reached_page - first_sliding_page_; num_left > 0) {
    const auto end = sliding_.begin() + num_left;
    give_back(*sliding_pool_, {sliding_.begin(), end});
    sliding_.erase(sliding_.begin(), end);
    first_sliding_page_ = first_reached_page;
  }

  const int num_pages = num_pages_for(length_ + num_tokens);
  const int num_full_missing = num_pages - static_cast<int>(full_.size());
  const int num_sliding_missing = num_pages - first_sliding_page_ - static_cast<int>(sliding_.size());
  if (num_full_missing > full_pool_->num_free() || num_sliding_missing > sliding_pool_->num_free())
    return false;
  for (int i = 0; i < num_full_missing; ++i) full_.push_back(*full_pool_->take());
  for (int i = 0; i < num_sliding_missing; ++i) sliding_.push_back(*sliding_pool_->take());
  return true;
}

void SequencePages::advance(int num_tokens) {
  NIBBLE_CHECK(num_tokens >= 0 && num_pages_for(length_ + num_tokens) <= static_cast<int>(full_.size()),
               "{} tokens after {}, room for {}", num_tokens, length_, full_.size() * kPageTokens);
  length_ += num_tokens;
}

PageTableView SequencePages::full() const { return {full_, 0}; }

PageTableView SequencePages::sliding() const { return {sliding_, first_sliding_page_}; }

int num_pages_for(int num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }

// From the first position that the chunk's first token sees to the chunk's last: window - 1 + chunk positions in a
// row, which begin anywhere in a page.
int max_sliding_pages(int window, int chunk) { return num_pages_for(window - 1 + chunk - 1) + 1; }

}  // namespace nibble
