#include "reference/weight_row.h"

#include <algorithm>
#include <cstdint>

#include "core/numbers/e4m3.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"

namespace nibble::reference {

void decode_row(const Matrix& weight, ptrdiff_t row_index, float* row) {
  NIBBLE_CHECK(row_index >= 0 && row_index < weight.rows, "row {} of {}", row_index, weight.rows);
  const ptrdiff_t cols = weight.cols;
  if (const Blocks* blocks = weight.blocks()) {
    dequantise(blocks->type, row_of(*blocks, static_cast<size_t>(row_index), static_cast<size_t>(cols)),
               {row, static_cast<size_t>(cols)});
    return;
  }
  const Elements& elements = weight.elements();
  switch (elements.format) {
    case Format::kF32: {
      const float* stored = static_cast<const float*>(elements.data) + row_index * cols;
      std::copy(stored, stored + cols, row);
      return;
    }
    case Format::kBf16: {
      const Bf16* stored = static_cast<const Bf16*>(elements.data) + row_index * cols;
      std::transform(stored, stored + cols, row, [](Bf16 element) { return to_float(element); });
      return;
    }
    case Format::kMxfp4: {
      constexpr ptrdiff_t kBlock{kMxfp4BlockSize};
      const uint8_t* codes = static_cast<const uint8_t*>(elements.data) + row_index * (cols / 2);
      const uint8_t* scales = elements.scales + row_index * (cols / kBlock);
      decode_mxfp4({codes, static_cast<size_t>(cols / 2)}, {scales, static_cast<size_t>(cols / kBlock)},
                   {row, static_cast<size_t>(cols)});
      return;
    }
    case Format::kE4m3: {
      const uint8_t* codes = static_cast<const uint8_t*>(elements.data) + row_index * cols;
      const float scale = elements.row_scales[row_index];
      std::transform(codes, codes + cols, row,
                     [scale](uint8_t code) { return to_float(E4m3{code}) * scale; });
      return;
    }
    case Format::kQ8_0:
    case Format::kMxfp8:
    case Format::kMxfp8x2:
      NIBBLE_CHECK(false, "elements of {}", name(elements.format));
  }
}

}  // namespace nibble::reference
