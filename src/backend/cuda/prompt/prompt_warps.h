// The warps of a CTA that multiplies for many tokens (pipeline.cuh), and how they divide its rows and columns. Needs no GPU. C++17, for
// device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// The warps of every shape.
struct PromptWarps {
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)}, kCtas{1};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns: n of mma
  static constexpr int kWarpColumns{8 * kWarpTiles};
  static constexpr int kCopyLanes{32 * kCopyWarps};  // that tell when a stage is full
  static constexpr bool kTakesImage{false};
};

// With activations in bfloat16 so many warps lie beside each other, and so many below. Weights of E4M3 and BF16 have fewer rows in an item,
// because they are 2 and 4 times as many bytes as those of MXFP4.
constexpr int prompt_column_warps(Layout layout) { return layout == Layout::kMxfp4 ? 1 : 2; }
constexpr int prompt_row_warps(Layout layout) { return PromptWarps::kWarps / prompt_column_warps(layout); }

}  // namespace nibble::cuda
