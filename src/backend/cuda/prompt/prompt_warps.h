// The warps of a CTA that multiplies for many tokens (pipeline.cuh), and how they divide its rows and columns. Needs no GPU. C++17, for
// device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// The warps of every shape.
struct PromptWarps {
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns: n of mma
  static constexpr int kWarpColumns{8 * kWarpTiles};

  // What those shapes have alike whose warps multiply by themselves.
  static constexpr bool kIsWgmma{false};
  static constexpr int kWeightPlace{0};
#ifdef __CUDACC__
  static __device__ void prepare_copying() {}
#endif
};

// Where 16 bytes number `piece` of a column are, from where columns begin. Where a column has 8, the first and the last four change places
// in every second column, so that the lanes of two columns read from different banks.
template <int row_bytes>
constexpr int swapped_place(int column, int piece) {
  return column * row_bytes + (piece ^ (row_bytes == 128 ? column % 2 * 4 : 0)) * 16;
}

// With activations in bfloat16 so many warps lie beside each other, and so many below. Weights of E4M3 and BF16 have fewer rows in an item,
// because they are 2 and 4 times as many bytes as those of MXFP4.
constexpr int prompt_column_warps(Layout layout) { return layout == Layout::kMxfp4 ? 1 : 2; }
constexpr int prompt_row_warps(Layout layout) { return PromptWarps::kWarps / prompt_column_warps(layout); }

}  // namespace nibble::cuda
