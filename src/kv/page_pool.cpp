#include "kv/page_pool.h"

#include "core/errors/check.h"

namespace nibble {

PagePool::PagePool(int num_pages, int first_page)
    : first_page_(static_cast<size_t>(first_page)), num_free_(num_pages) {
  NIBBLE_CHECK(num_pages >= 0 && first_page >= 0, "{} pages from {} on", num_pages, first_page);
  pages_.resize(static_cast<size_t>(num_pages) + kNumLists);
  for (const List list : {List::kUnusedSliding, List::kFull, List::kUsedSliding})
    pages_[end_of(list)].before = pages_[end_of(list)].after = end_of(list);
  worthless_.reserve(static_cast<size_t>(num_pages));
  for (auto index = static_cast<size_t>(num_pages); index-- > 0;) worthless_.push_back(page_at(index));
}

PagePool::List PagePool::list_of(const Page& page) {
  if (page.kind == LayerKind::kFull) return List::kFull;
  return page.is_used_again ? List::kUsedSliding : List::kUnusedSliding;
}

size_t PagePool::index_of(PageId page) const {
  const size_t index = static_cast<size_t>(page) - first_page_;  // wraps around for a page below first_page_
  NIBBLE_CHECK(index < static_cast<size_t>(num_pages()), "page {} of {} from {} on",
               static_cast<size_t>(page), num_pages(), first_page_);
  return index;
}

PagePool::Page& PagePool::at(PageId page) { return pages_[index_of(page)]; }

void PagePool::link_last(size_t index) {
  const List list = list_of(pages_[index]);
  const size_t end = end_of(list), last = pages_[end].before;
  pages_[index].before = last;
  pages_[index].after = end;
  pages_[last].after = pages_[end].before = index;
  num_unused_ += list == List::kUnusedSliding;
}

void PagePool::unlink(size_t index) {
  pages_[pages_[index].before].after = pages_[index].after;
  pages_[pages_[index].after].before = pages_[index].before;
  num_unused_ -= list_of(pages_[index]) == List::kUnusedSliding;
}

void PagePool::reclaim_one() {
  List list = List::kUnusedSliding;
  if (num_unused_ <= num_pages() / kPagesPerUnused)
    for (const List other : {List::kUsedSliding, List::kUnusedSliding, List::kFull})
      if (!is_empty(other)) list = other;
  const PageId oldest = page_at(pages_[end_of(list)].after);
  if (reclaim_) reclaim_(oldest, at(oldest).kind);
  forget(oldest);
}

// Takes the page that was given back last, if possible: this page is the likeliest to be in a hardware cache.
std::optional<PageId> PagePool::take(LayerKind kind) {
  if (num_free_ == 0) return std::nullopt;
  if (worthless_.empty()) reclaim_one();
  const PageId page = worthless_.back();
  worthless_.pop_back();
  at(page) = {.num_holders = 1, .kind = kind};
  ++num_held_[static_cast<size_t>(kind)];
  --num_free_;
  return page;
}

void PagePool::share(PageId page) {
  Page& shared = at(page);
  NIBBLE_CHECK(shared.num_holders > 0 || shared.is_kept, "page {} is neither held nor kept",
               static_cast<size_t>(page));
  if (shared.num_holders++ == 0) {
    unlink(index_of(page));
    ++num_held_[static_cast<size_t>(shared.kind)];
    --num_free_;
  }
  shared.is_used_again = true;
}

void PagePool::give_back(PageId page) {
  Page& given = at(page);
  NIBBLE_CHECK(given.num_holders > 0, "page {} of {} was not taken", static_cast<size_t>(page), num_pages());
  if (--given.num_holders > 0) return;
  --num_held_[static_cast<size_t>(given.kind)];
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
  if (!is_held(page)) unlink(index_of(page));
  at(page).is_used_again = true;
  if (!is_held(page)) link_last(index_of(page));
}

}  // namespace nibble
