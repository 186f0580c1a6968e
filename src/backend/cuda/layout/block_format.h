// Formats of activations in block-scaled products, one scale per 32 columns (block_rows.h); also an option's
// values. No CUDA; C++17 for device code.
#pragma once

#include <cstdint>

namespace nibble::cuda {

//  kMxfp8x2: two E4M3 terms, 2 bytes per column, like bfloat16; kMxfp8: E4M3; kMxfp4: E2M1
enum class BlockFormat { kMxfp8x2, kMxfp8, kMxfp4 };
inline constexpr BlockFormat kBlockFormats[]{BlockFormat::kMxfp8x2, BlockFormat::kMxfp8, BlockFormat::kMxfp4};

struct BlockRows {
  BlockFormat format{BlockFormat::kMxfp8x2};
  int cols{0};
  uint8_t* codes{nullptr};    // [rows, tiles, row_tile_bytes(format)]; null: no rows
  uint32_t* scales{nullptr};  // [rows, tiles]
};

}  // namespace nibble::cuda
