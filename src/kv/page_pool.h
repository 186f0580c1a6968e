// Reference counts of the KV pages of one kind of layer; the backend owns the storage. Sequences can share a
// page. A page whose content is worth keeping (prefix_cache.h) stays intact after its last holder gives it
// back, until no other page is free. The least recently used one is reclaimed first.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "model/batch.h"

namespace nibble {

class PagePool {
 public:
  explicit PagePool(int num_pages, int first_page = 0);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::optional<PageId> take();  // nullopt: all pages are held
  void share(PageId page);       // adds a holder to a page that is held or kept
  void give_back(PageId page);   // removes a holder; the page must have one

  void keep(PageId page);    // marks the content of a held page as worth keeping
  void forget(PageId page);  // removes the mark of keep()
  void touch(PageId page);   // marks a kept page as most recently used
  // `reclaim` is called with each kept page that take() is about to reuse.
  void on_reclaim(std::function<void(PageId)> reclaim) { reclaim_ = std::move(reclaim); }

  int num_pages() const { return static_cast<int>(pages_.size()) - 1; }
  PageId page_at(size_t index) const { return static_cast<PageId>(first_page_ + index); }
  size_t index_of(PageId page) const;         // of a page of this pool; below num_pages()
  int num_free() const { return num_free_; }  // pages without a holder: take() can succeed this many times
  bool is_held(PageId page) const { return at(page).num_holders > 0; }
  bool is_kept(PageId page) const { return at(page).is_kept; }

 private:
  struct Page {
    int num_holders{0};
    bool is_kept{false};
    size_t before{0}, after{0};  // links of the list in order of use, if it is kept and has no holder
  };
  Page& at(PageId page);
  const Page& at(PageId page) const { return const_cast<PagePool*>(this)->at(page); }
  void link_last(size_t index);
  void unlink(size_t index);

  // All pages, then the sentinel of the circular list of kept pages without a holder.
  std::vector<Page> pages_;
  size_t first_page_;
  std::vector<PageId> worthless_;  // free pages that are not kept
  int num_free_;
  std::function<void(PageId)> reclaim_;
};

}  // namespace nibble
