#include "reference/weight_row.h"

#include <algorithm>
#include <cstdint>

#include "core/e4m3.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"

namespace nibble::reference {

void decode_row(const Matrix& weight, ptrdiff_t row_index, float* row) {
  NIBBLE_CHECK(row_index >= 0 && row_index < weight.rows, "row {} of {}", row_index, weight.rows);
  const ptrdiff_t cols = weight.cols;
  if (weight.blocks.rows) {
    dequantise(weight.blocks.type,
               row_of(weight.blocks, static_cast<size_t>(row_index), static_cast<size_t>(cols)),
               {row, static_cast<size_t>(cols)});
    return;
  }
  switch (weight.format) {
    case Format::kF32: {
      const float* stored = static_cast<const float*>(weight.data) + row_index * cols;
      std::copy(stored, stored + cols, row);
      return;
    }
    case Format::kBf16: {
      const Bf16* stored = static_cast<const Bf16*>(weight.data) + row_index * cols;
      std::transform(stored, stored + cols, row, [](Bf16 element) { return to_float(element); });
      return;
    }
    case Format::kMxfp4: {
      constexpr ptrdiff_t kBlock{kMxfp4BlockSize};
      const uint8_t* codes = static_cast<const uint8_t*>(weight.data) + row_index * (cols / 2);
      const uint8_t* scales = weight.scales + row_index * (cols / kBlock);
      decode_mxfp4({codes, static_cast<size_t>(cols / 2)}, {scales, static_cast<size_t>(cols / kBlock)},
                   {row, static_cast<size_t>(cols)});
      return;
    }
    case Format::kE4m3: {
      const uint8_t* codes = static_cast<const uint8_t*>(weight.data) + row_index * cols;
      const float scale = weight.row_scales[row_index];
      std::transform(codes, codes + cols, row,
                     [scale](uint8_t code) { return to_float(E4m3{code}) * scale; });
      return;
    }
    case Format::kQ8_0:
      NIBBLE_CHECK(false, "a matrix of Q8_0 without blocks");
  }
}

}  // namespace nibble::reference
