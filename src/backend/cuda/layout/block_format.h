// Formats of activations for block-scaled products, with one scale per 32 columns (block_rows.h). An option
// of the program selects the format. This header has no device code. CUDA code includes it, so it must
// compile as C++17.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// kMxfp8x2: a value is the sum of two E4M3 terms, and takes 2 bytes, like a bfloat16. kMxfp8: a value is one
// E4M3 code. kMxfp4: a value is one E2M1 code.
enum class BlockFormat { kMxfp8x2, kMxfp8, kMxfp4 };
inline constexpr BlockFormat kBlockFormats[]{BlockFormat::kMxfp8x2, BlockFormat::kMxfp8, BlockFormat::kMxfp4};

struct BlockRows {
  BlockFormat format{BlockFormat::kMxfp8x2};
  int cols{0};
  uint8_t* codes{nullptr};    // [rows, tiles, row_tile_bytes(format)]; null if there are no activations
  uint32_t* scales{nullptr};  // [rows, tiles]: the four scale bytes of a tile (block_rows.h)
};

}  // namespace nibble::cuda
