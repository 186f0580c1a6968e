// The pages of one kind of layer: which are free. Numbers only; the storage is the backend's.
#pragma once

#include <optional>
#include <vector>

#include "model/batch.h"

namespace nibble {

class PagePool {
 public:
  explicit PagePool(int num_pages);
  std::optional<PageId> take();  // nothing: all are taken, which is the scheduler's daily work
  void give_back(PageId page);   // giving back what was not taken is a bug
  int num_pages() const { return static_cast<int>(is_taken_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }

 private:
  std::vector<PageId> free_;
  std::vector<bool> is_taken_;
};

}  // namespace nibble
