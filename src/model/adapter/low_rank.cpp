#include "model/adapter/low_rank.h"

#include <cstring>

#include "core/errors/check.h"
#include "core/numbers/as_size.h"
#include "core/numbers/bf16.h"
#include "core/numbers/f16.h"

namespace nibble {
namespace {

template <typename T>
float element(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof value);
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_float(value);
}

float element(DType type, const std::byte* data, size_t index) {
  if (type == DType::kBf16) return element<Bf16>(data, index);
  if (type == DType::kF16) return element<F16>(data, index);
  NIBBLE_CHECK(type == DType::kF32, "a factor of {}", type);
  return element<float>(data, index);
}

}  // namespace

float Factor::at(size_t row, size_t col) const {
  return element(type, data, row * row_stride + col * col_stride);
}

Factor transposed(const Factor& factor) {
  return {factor.type, factor.data, factor.col_stride, factor.row_stride};
}

void add_update(const LowRankUpdate& update, int first_row, size_t cols, std::span<float> rows) {
  const int end = first_row + static_cast<int>(rows.size() / cols);
  // The first row at or after `first_row` that the update changes.
  const int past = first_row - update.first_row;
  const int skipped = past <= 0 ? 0 : (past + update.row_step - 1) / update.row_step;
  std::vector<float> of_a(cols);
  for (int k = 0; k < update.rank; ++k) {
    for (size_t c = 0; c < cols; ++c) of_a[c] = update.a.at(as_size(k), c);
    for (int n = skipped, row = update.first_row + n * update.row_step; row < end;
         ++n, row += update.row_step) {
      const float factor = update.scale * update.b.at(as_size(n), as_size(k));
      float* to = &rows[as_size(row - first_row) * cols];
      for (size_t c = 0; c < cols; ++c) to[c] += factor * of_a[c];
    }
  }
}

}  // namespace nibble
