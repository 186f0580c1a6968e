// The warps of a CTA that multiplies for many tokens (pipeline.cuh). Needs no GPU. C++17, for device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

struct PromptWarps {  // shared by all shapes for mma.sync
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)}, kCtas{1};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns (tokens or pairs, n of mma.sync) per warp
  static constexpr int kWarpColumns{8 * kWarpTiles};
  static constexpr int kCopyLanes{32 * kCopyWarps};  // number of arrivals that make a stage full
  static constexpr bool kTakesImage{false};
};

// Warps along the columns of a bfloat16 item. Larger weights (E4M3, BF16) get fewer rows, more columns.
constexpr int prompt_column_warps(Layout layout) { return layout == Layout::kMxfp4 ? 1 : 2; }
constexpr int prompt_row_warps(Layout layout) { return PromptWarps::kWarps / prompt_column_warps(layout); }

}  // namespace nibble::cuda
