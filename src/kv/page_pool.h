// Reference counts of the pages of a KV cache; the backend owns the storage. Pages of full and of sliding layers
// have the same size, so any page can be taken for either. Sequences can share a page. A page whose content is
// worth keeping (prefix_cache.h) stays intact after its last holder gives it back, until no other page is free.
// Then the least recently used one of its kind is reclaimed.
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
  // `most_kept_sliding`: kept sliding pages without a holder that are spared while kept full pages can be
  // reclaimed; by default num_pages / kPagesPerKeptSliding.
  explicit PagePool(int num_pages, int first_page = 0, std::optional<int> most_kept_sliding = {});
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::optional<PageId> take(LayerKind kind);  // nullopt: all pages are held
  void share(PageId page);                     // adds a holder to a page that is held or kept
  void give_back(PageId page);                 // removes a holder; the page must have one

  void keep(PageId page);    // marks the content of a held page as worth keeping
  void forget(PageId page);  // removes the mark of keep()
  void touch(PageId page);   // marks a kept page as most recently used
  // `reclaim` is called with each kept page that take() is about to reuse. It may forget other pages.
  void on_reclaim(std::function<void(PageId, LayerKind)> reclaim) { reclaim_ = std::move(reclaim); }

  int num_pages() const { return static_cast<int>(pages_.size()) - kNumKinds; }
  PageId page_at(size_t index) const { return static_cast<PageId>(first_page_ + index); }
  size_t index_of(PageId page) const;         // of a page of this pool; below num_pages()
  int num_free() const { return num_free_; }  // pages without a holder: take() can succeed this many times
  int num_held(LayerKind kind) const { return num_held_[static_cast<size_t>(kind)]; }
  bool is_held(PageId page) const { return at(page).num_holders > 0; }
  bool is_kept(PageId page) const { return at(page).is_kept; }

  // A sequence can continue at a position if all its full pages before it are cached, but only the sliding pages
  // in its window: a text needs few kept sliding pages. The ratio was measured: a cache of 56,900 full pages
  // found 22 % of 100 prefixes with 896 sliding pages and 99 % with 7,100 (docs/scaling.md).
  static constexpr int kPagesPerKeptSliding{9};

 private:
  static constexpr int kNumKinds{2};
  struct Page {
    int num_holders{0};
    LayerKind kind{LayerKind::kFull};  // of its last take()
    bool is_kept{false};
    size_t before{0}, after{0};  // links of the list in order of use, if it is kept and has no holder
  };
  Page& at(PageId page);
  const Page& at(PageId page) const { return const_cast<PagePool*>(this)->at(page); }
  size_t ring_of(LayerKind kind) const { return pages_.size() - kNumKinds + static_cast<size_t>(kind); }
  bool has_idle(LayerKind kind) const { return pages_[ring_of(kind)].after != ring_of(kind); }
  void link_last(size_t index);
  void unlink(size_t index);
  void reclaim_one();

  // All pages, then for each kind the sentinel of the circular list of its kept pages without a holder.
  std::vector<Page> pages_;
  size_t first_page_;
  std::vector<PageId> worthless_;  // free pages that are not kept
  int num_free_;
  int most_kept_sliding_;
  int num_idle_sliding_{0};  // length of the ring of sliding pages
  std::array<int, kNumKinds> num_held_{};
  std::function<void(PageId, LayerKind)> reclaim_;
};

}  // namespace nibble
