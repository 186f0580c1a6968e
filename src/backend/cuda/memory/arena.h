#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// Divides a buffer, which begins at `base`, into arrays, one after another. If `base` is null, the arena only
// adds up the arrays' sizes.
class Arena {
 public:
  explicit Arena(uint8_t* base) : base_(base) {}
  uint8_t* take(size_t bytes) {
    uint8_t* place = base_ ? base_ + size_ : nullptr;
    size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  template <typename T>
  T* take_array(size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T)));
  }
  Strips take_strips(Strips strips, int num_matrices = 1) {
    strips.data = take(static_cast<size_t>(num_matrices) * strips.matrix_bytes());
    if (strips.layout == Layout::kE4m3)
      strips.row_scales = take_array<float>(static_cast<size_t>(strips.rows));
    return strips;
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kAlignment{256};

  uint8_t* base_;
  size_t size_{0};
};

}  // namespace nibble::cuda
