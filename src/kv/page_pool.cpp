#include "kv/page_pool.h"

#include "core/check.h"

namespace nibble {

PagePool::PagePool(int num_pages, int first_page)
    : first_page_(static_cast<size_t>(first_page)), num_free_(num_pages) {
  NIBBLE_CHECK(num_pages >= 0 && first_page >= 0, "{} pages from {} on", num_pages, first_page);
  pages_.resize(static_cast<size_t>(num_pages) + 1);
  pages_.back().before = pages_.back().after = pages_.size() - 1;
  worthless_.reserve(pages_.size());
  for (size_t index = pages_.size() - 1; index-- > 0;) worthless_.push_back(page_at(index));
}

size_t PagePool::index_of(PageId page) const {
  const size_t index = static_cast<size_t>(page) - first_page_;  // wraps around for a page below first_page_
  NIBBLE_CHECK(index + 1 < pages_.size(), "page {} of {} from {} on", static_cast<size_t>(page), num_pages(),
               first_page_);
  return index;
}

PagePool::Page& PagePool::at(PageId page) { return pages_[index_of(page)]; }

void PagePool::link_last(size_t index) {
  const size_t ring = pages_.size() - 1, last = pages_[ring].before;
  pages_[index].before = last;
  pages_[index].after = ring;
  pages_[last].after = pages_[ring].before = index;
}

void PagePool::unlink(size_t index) {
  pages_[pages_[index].before].after = pages_[index].after;
  pages_[pages_[index].after].before = pages_[index].before;
}

// Prefers the page given back last: it is the likeliest to be in a hardware cache still.
std::optional<PageId> PagePool::take() {
  if (num_free_ == 0) return std::nullopt;
  if (worthless_.empty()) {
    const PageId oldest = page_at(pages_.back().after);
    if (reclaim_) reclaim_(oldest);
    forget(oldest);
  }
  const PageId page = worthless_.back();
  worthless_.pop_back();
  at(page).num_holders = 1;
  --num_free_;
  return page;
}

void PagePool::share(PageId page) {
  Page& shared = at(page);
  NIBBLE_CHECK(shared.num_holders > 0 || shared.is_kept, "page {} is neither held nor kept",
               static_cast<size_t>(page));
  if (shared.num_holders++ > 0) return;
  unlink(index_of(page));
  --num_free_;
}

void PagePool::give_back(PageId page) {
  Page& given = at(page);
  NIBBLE_CHECK(given.num_holders > 0, "page {} of {} was not taken", static_cast<size_t>(page), num_pages());
  if (--given.num_holders > 0) return;
  ++num_free_;
  if (given.is_kept)
    link_last(index_of(page));
  else
    worthless_.push_back(page);
}

void PagePool::keep(PageId page) {
  NIBBLE_CHECK(is_held(page) && !is_kept(page), "page {} is not held, or is already kept",
               static_cast<size_t>(page));
  at(page).is_kept = true;
}

void PagePool::forget(PageId page) {
  NIBBLE_CHECK(is_kept(page), "page {} is not kept", static_cast<size_t>(page));
  at(page).is_kept = false;
  if (is_held(page)) return;
  unlink(index_of(page));
  worthless_.push_back(page);
}

void PagePool::touch(PageId page) {
  NIBBLE_CHECK(is_kept(page), "page {} is not kept", static_cast<size_t>(page));
  if (is_held(page)) return;
  unlink(index_of(page));
  link_last(index_of(page));
}

}  // namespace nibble
