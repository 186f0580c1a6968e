// Operands for tests of single operations: weights that are views of the test's float32 vectors, and the
// pages of one sequence.
#pragma once

#include <vector>

#include "model/weights.h"
#include "reference/array.h"
#include "reference/kv_cache.h"

namespace nibble::reference {

inline Vector vector_of(const std::vector<float>& elements) {
  return {elements.data(), Format::kF32, static_cast<int>(elements.size())};
}
inline Matrix matrix_of(const std::vector<float>& elements, int rows) {
  return {rows, static_cast<int>(elements.size()) / rows,
          Elements{.format = Format::kF32, .data = elements.data()}};
}
inline View<const float, 2> rows_view(const std::vector<float>& elements, ptrdiff_t rows) {
  return {elements.data(), {rows, static_cast<ptrdiff_t>(elements.size()) / rows}};
}

// Pages 0, 1, 2, ... of one layer. They belong to one sequence in this order.
class OneSequenceKv {
 public:
  OneSequenceKv(int num_pages, int num_kv_heads, int head_dim)
      : keys_({num_pages, num_kv_heads, kPageTokens, head_dim}),
        values_({num_pages, num_kv_heads, kPageTokens, head_dim}),
        pages_(num_pages) {
    for (int page = 0; page < num_pages; ++page) pages_[page] = static_cast<PageId>(page);
  }
  LayerKv layer() const { return {LayerKind::kFull, keys_, values_}; }
  BatchRow row(int position) const { return {.position = position, .full = {pages_}}; }
  float* key(int position, int kv_head = 0) const { return layer().key(row(position), kv_head, position); }
  float* value(int position, int kv_head = 0) const {
    return layer().value(row(position), kv_head, position);
  }

 private:
  Array<float, 4> keys_, values_;
  std::vector<PageId> pages_;
};

}  // namespace nibble::reference
