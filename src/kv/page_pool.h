// Reference counts of the pages of a KV cache; the backend owns the storage. Pages of full and of sliding
// layers have the same size, so any page can be taken for either. Sequences can share a page. A page whose
// content is worth keeping (prefix_cache.h) stays intact after its last holder gives it back, until no other
// page is free. Then take() reclaims a kept page without a holder: the least recently used page of the first
// of these lists that is not empty:
//
//   1. sliding pages not used again   as long as they are more than 1 / kPagesPerUnused of all pages
//   2. full pages                     the sliding page of the same tokens is lost too
//   3. sliding pages not used again   the rest
//   4. sliding pages used again
//
// To continue a text, a sequence needs all its full pages but only the sliding pages in its window. So most
// sliding pages are never needed again. A sliding page counts as used again, and is reclaimed last, once a
// sequence has continued a text with it (share()) or touch() has marked it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "model/batch.h"
#include "model/config.h"

namespace nibble {

class PagePool {
 public:
  explicit PagePool(int num_pages, int first_page = 0);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::optional<PageId> take(LayerKind kind);  // nullopt: all pages are held
  // Adds a holder to a page that is held or kept. Marks the page as used again.
  void share(PageId page);
  void give_back(PageId page);  // removes a holder; the page must have one

  void keep(PageId page);    // marks the content of a held page as worth keeping
  void forget(PageId page);  // removes the mark of keep()
  void touch(PageId page);   // marks a kept page as used again, and as most recently used
  // `reclaim` is called with each kept page that take() will reuse now. It may call forget() for other pages.
  void on_reclaim(std::function<void(PageId, LayerKind)> reclaim) { reclaim_ = std::move(reclaim); }

  int num_pages() const { return static_cast<int>(pages_.size() - kNumLists); }
  PageId page_at(size_t index) const { return static_cast<PageId>(first_page_ + index); }
  size_t index_of(PageId page) const;         // index of a page of this pool; below num_pages()
  int num_free() const { return num_free_; }  // pages without a holder: take() can succeed this many times
  int num_held(LayerKind kind) const { return num_held_[static_cast<size_t>(kind)]; }
  bool is_held(PageId page) const { return at(page).num_holders > 0; }
  bool is_kept(PageId page) const { return at(page).is_kept; }

  // Chosen from 9, 6, 4, 3 and 2 by the share of requests that found their prefix in simulations
  // (docs/decisions/0023).
  static constexpr int kPagesPerUnused{6};

 private:
  static constexpr int kNumKinds{2};
  enum class List { kUnusedSliding, kFull, kUsedSliding };
  static constexpr size_t kNumLists{3};
  struct Page {
    int num_holders{0};
    LayerKind kind{LayerKind::kFull};  // kind of the last take()
    bool is_kept{false};
    bool is_used_again{false};
    size_t before{0}, after{0};  // neighbours in its list, if the page is kept without a holder
  };
  Page& at(PageId page);
  const Page& at(PageId page) const { return const_cast<PagePool*>(this)->at(page); }
  static List list_of(const Page& page);
  size_t end_of(List list) const { return pages_.size() - kNumLists + static_cast<size_t>(list); }
  bool is_empty(List list) const { return pages_[end_of(list)].after == end_of(list); }
  void link_last(size_t index);
  void unlink(size_t index);
  void reclaim_one();

  // All pages, then one sentinel for each circular list of kept pages without a holder.
  std::vector<Page> pages_;
  size_t first_page_;
  std::vector<PageId> worthless_;  // free pages that are not kept
  int num_free_;
  int num_unused_{0};  // pages in List::kUnusedSliding
  std::array<int, kNumKinds> num_held_{};
  std::function<void(PageId, LayerKind)> reclaim_;
};

}  // namespace nibble
