// The pages of one kind of layer: who holds which, and which are kept though nobody does. Numbers only; the storage is
// the backend's.
//
// A page is held by any number of sequences. What is in it may be worth keeping (prefix_cache.h): then it stays as it is
// when its last holder gives it back, until somebody needs a page and there is no worthless one left. Of the kept ones the
// one that was used longest ago goes first.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "model/batch.h"

namespace nibble {

class PagePool {
 public:
  explicit PagePool(int num_pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::optional<PageId> take();  // nothing: all are held, which is the scheduler's daily work
  void share(PageId page);       // one more holder, of a page that is held or kept
  void give_back(PageId page);   // one holder less; giving back what nobody holds is a bug

  void keep(PageId page);    // of a held page: its content is worth keeping from now on
  void forget(PageId page);  // of a kept page: it no longer is
  void touch(PageId page);   // of a kept page: counts as used now
  // Is told of each kept page that take() is about to hand out anew; such a page is forgotten.
  void on_reclaim(std::function<void(PageId)> reclaim) { reclaim_ = std::move(reclaim); }

  int num_pages() const { return static_cast<int>(pages_.size()) - 1; }
  int num_free() const { return num_free_; }  // nobody holds them: take() succeeds so often
  bool is_held(PageId page) const { return at(page).num_holders > 0; }
  bool is_kept(PageId page) const { return at(page).is_kept; }

 private:
  struct Page {
    int num_holders{0};
    bool is_kept{false};
    size_t before{0}, after{0};  // in the order of use, if it is kept and nobody holds it
  };
  Page& at(PageId page);
  const Page& at(PageId page) const { return const_cast<PagePool*>(this)->at(page); }
  void link_last(size_t index);
  void unlink(size_t index);

  std::vector<Page> pages_;        // and one more, where the ring of kept pages that nobody holds is closed
  std::vector<PageId> worthless_;  // neither held nor kept
  int num_free_;
  std::function<void(PageId)> reclaim_;
};

}  // namespace nibble
