#include "kv/page_pool.h"

#include "core/check.h"

namespace nibble {

PagePool::PagePool(int num_pages, int first_page, std::optional<int> most_kept_sliding)
    : first_page_(static_cast<size_t>(first_page)),
      num_free_(num_pages),
      most_kept_sliding_(most_kept_sliding.value_or(num_pages / kPagesPerKeptSliding)) {
  NIBBLE_CHECK(num_pages >= 0 && first_page >= 0, "{} pages from {} on", num_pages, first_page);
  pages_.resize(static_cast<size_t>(num_pages + kNumKinds));
  for (const LayerKind kind : {LayerKind::kFull, LayerKind::kSliding})
    pages_[ring_of(kind)].before = pages_[ring_of(kind)].after = ring_of(kind);
  worthless_.reserve(static_cast<size_t>(num_pages));
  for (auto index = static_cast<size_t>(num_pages); index-- > 0;) worthless_.push_back(page_at(index));
}

size_t PagePool::index_of(PageId page) const {
  const size_t index = static_cast<size_t>(page) - first_page_;  // wraps around for a page below first_page_
  NIBBLE_CHECK(index < static_cast<size_t>(num_pages()), "page {} of {} from {} on",
               static_cast<size_t>(page), num_pages(), first_page_);
  return index;
}

PagePool::Page& PagePool::at(PageId page) { return pages_[index_of(page)]; }

void PagePool::link_last(size_t index) {
  const size_t ring = ring_of(pages_[index].kind), last = pages_[ring].before;
  pages_[index].before = last;
  pages_[index].after = ring;
  pages_[last].after = pages_[ring].before = index;
  num_idle_sliding_ += pages_[index].kind == LayerKind::kSliding;
}

void PagePool::unlink(size_t index) {
  pages_[pages_[index].before].after = pages_[index].after;
  pages_[pages_[index].after].before = pages_[index].before;
  num_idle_sliding_ -= pages_[index].kind == LayerKind::kSliding;
}

void PagePool::reclaim_one() {
  const bool is_sliding = num_idle_sliding_ > most_kept_sliding_ || !has_idle(LayerKind::kFull);
  const LayerKind kind = is_sliding ? LayerKind::kSliding : LayerKind::kFull;
  const PageId oldest = page_at(pages_[ring_of(kind)].after);
  if (reclaim_) reclaim_(oldest, kind);
  forget(oldest);
}

// Prefers the page given back last: it is the likeliest to be in a hardware cache still.
std::optional<PageId> PagePool::take(LayerKind kind) {
  if (num_free_ == 0) return std::nullopt;
  if (worthless_.empty()) reclaim_one();
  const PageId page = worthless_.back();
  worthless_.pop_back();
  at(page).num_holders = 1;
  at(page).kind = kind;
  ++num_held_[static_cast<size_t>(kind)];
  --num_free_;
  return page;
}

void PagePool::share(PageId page) {
  Page& shared = at(page);
  NIBBLE_CHECK(shared.num_holders > 0 || shared.is_kept, "page {} is neither held nor kept",
               static_cast<size_t>(page));
  if (shared.num_holders++ > 0) return;
  unlink(index_of(page));
  ++num_held_[static_cast<size_t>(shared.kind)];
  --num_free_;
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
  if (is_held(page)) return;
  unlink(index_of(page));
  link_last(index_of(page));
}

}  // namespace nibble
