// The formats of activations in block-scaled products, with a scale for each 32 columns (block_rows.h). Needs
// no CUDA, because an option has these values too. C++17, for device code.
#pragma once

namespace nibble::cuda {

//   kMxfp8x2   two E4M3 terms: 2 bytes per column, like bfloat16
//   kMxfp8     E4M3: 1 byte
//   kMxfp4     E2M1: half a byte
enum class BlockFormat { kMxfp8x2, kMxfp8, kMxfp4 };
inline constexpr BlockFormat kBlockFormats[]{BlockFormat::kMxfp8x2, BlockFormat::kMxfp8, BlockFormat::kMxfp4};

}  // namespace nibble::cuda
