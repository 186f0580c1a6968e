// The warps of a CTA that multiplies for many tokens (pipeline.cuh). Needs no GPU. C++17, for device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

struct PromptWarps {  // shared by all shapes for mma.sync
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)}, kCtas{1};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns, the n of mma.sync
  static constexpr int kWarpColumns{8 * kWarpTiles};
  static constexpr int kCopyLanes{32 * kCopyWarps};  // lanes whose arrivals make a stage full
  static constexpr bool kTakesImage{false};
};

// With bfloat16 activations, items of E4M3 and BF16 have fewer rows: weights are 2 and 4 times MXFP4's size.
constexpr int prompt_column_warps(Layout layout) { return layout == Layout::kMxfp4 ? 1 : 2; }
constexpr int prompt_row_warps(Layout layout) { return PromptWarps::kWarps / prompt_column_warps(layout); }

}  // namespace nibble::cuda
