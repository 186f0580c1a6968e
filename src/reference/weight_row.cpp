#include "reference/weight_row.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nibble::reference {

void decode_row(const Matrix& weight, ptrdiff_t row_index, float* row) {
  NIBBLE_CHECK(row_index >= 0 && row_index < weight.rows, "row {} of {}", row_index, weight.rows);
  const ptrdiff_t cols = weight.cols;
  switch (weight.format) {
    case Format::kF32: {
      const float* stored = static_cast<const float*>(weight.data) + row_index * cols;
      std::copy(stored, stored + cols, row);
      return;
    }
    case Format::kBf16: {
      const Bf16* stored = static_cast<const Bf16*>(weight.data) + row_index * cols;
      std::transform(stored, stored + cols, row, to_float);
      return;
    }
    case Format::kMxfp4: {
      const ptrdiff_t num_blocks = cols / 32;
      const uint8_t* codes = static_cast<const uint8_t*>(weight.data) + row_index * num_blocks * 16;
      const uint8_t* scales = weight.scales + row_index * num_blocks;
      constexpr float kE2m1[]{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
      for (ptrdiff_t b = 0; b < num_blocks; ++b)
        for (ptrdiff_t i = 0; i < 16; ++i) {
          const uint8_t pair = codes[b * 16 + i];
          row[b * 32 + 2 * i] = std::ldexp(kE2m1[pair & 15], scales[b] - 127);
          row[b * 32 + 2 * i + 1] = std::ldexp(kE2m1[pair >> 4], scales[b] - 127);
        }
      return;
    }
  }
}

}  // namespace nibble::reference
