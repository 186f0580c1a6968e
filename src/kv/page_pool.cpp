#include "kv/page_pool.h"

#include "core/check.h"

namespace nibble {

PagePool::PagePool(int num_pages) {
  NIBBLE_CHECK(num_pages >= 0, "{} pages", num_pages);
  is_taken_.resize(static_cast<size_t>(num_pages));
  free_.reserve(is_taken_.size());
  for (int page = num_pages - 1; page >= 0; --page) free_.push_back(static_cast<PageId>(page));
}

// Last back, first out: the page that was written last is the likeliest to be in a cache still.
std::optional<PageId> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  is_taken_[static_cast<size_t>(page)] = true;
  return page;
}

void PagePool::give_back(PageId page) {
  const auto index = static_cast<size_t>(page);
  NIBBLE_CHECK(index < is_taken_.size() && is_taken_[index], "page {} of {} was not taken", index,
               is_taken_.size());
  is_taken_[index] = false;
  free_.push_back(page);
}

}  // namespace nibble
