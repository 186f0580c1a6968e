// Matrix products of many tokens (pipeline.cuh) with bfloat16 activations, by mma.sync. The results have the
// same bits as those of stream.cuh. An item, which a CTA multiplies at once, depends on the weights' format:
//  MXFP4        12 warps divide the rows:                192 rows x  64 columns
//  E4M3, BF16   6 warps divide the rows, 2 the columns:   96 rows x 128 columns
#pragma once

#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/pipeline/pipeline.cuh"

namespace nibble::cuda {

// Plain rows of activations in global memory, `cols` elements each.
struct Bf16Rows {
  const __nv_bfloat16* data;
  int cols;

  __device__ const uint8_t* row(int i) const {
    return reinterpret_cast<const uint8_t*>(data + size_t{1} * i * cols);
  }
  // `cols` is a multiple of 32, so no piece (8 elements) is cut.
  __device__ bool has_piece(int piece) const { return 8 * piece < cols; }
};

template <Layout layout>
class Bf16Lane;

template <Layout layout>
struct PromptShape : PromptWarps {
  static constexpr Layout kLayout{layout};
  static constexpr int kColumnWarps{prompt_column_warps(layout)}, kRowWarps{prompt_row_warps(layout)};
  static constexpr int kStrips{kRowWarps}, kColumns{kColumnWarps * kWarpColumns};
  static constexpr int kRowBytes{2 * kTileCols}, kScaleBytes{0};
  static constexpr int kWeightBytes{kStrips * tile_bytes(layout)},
      kStageBytes{kWeightBytes + kColumns * kRowBytes};
  static constexpr int kStages{layout == Layout::kMxfp4 ? 6 : layout == Layout::kE4m3 ? 4 : 3};
  static constexpr int kBytes{stages_bytes(kStages, kStageBytes)};
  static_assert(kBytes <= (98 << 10));
  using Rows = Bf16Rows;
  using Lane = Bf16Lane<layout>;
};

template <Layout layout>
class Bf16Lane {
  using Shape = PromptShape<layout>;

 public:
  __device__ Bf16Lane() {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
              g = lane / 4;
    weights_ = warp % Shape::kRowWarps * tile_bytes(layout);
    for (int group = 0; group < 2; ++group)
      columns_[group] = Shape::kWeightBytes +
                        (warp / Shape::kRowWarps * Shape::kWarpColumns + g) * Shape::kRowBytes +
                        (group ^ (g % 2)) * 64 + lane % 4 * 16;
  }

  // Multiplies the first 8 * `tiles` columns of a stage. Sums of columns past the end of the item are not
  // used.
  template <int tiles>
  __device__ void add_stage(uint32_t stage, PromptSums& sums) const {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const GroupWeights w = group_weights<layout>(stage + weights_, group);
      // The mma instructions of up to 4 sums alternate, because the second mma of a sum must wait for the
      // first mma of that sum.
      constexpr int kAtOnce{tiles < 4 ? tiles : 4};
#pragma unroll
      for (int first = 0; first < tiles; first += kAtOnce) {
        uint4 b[kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (first + n < tiles)
            b[n] = load_shared_16(stage + columns_[group] + 8 * (first + n) * Shape::kRowBytes);
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (first + n < tiles) mma_bf16(sums[first + n], w.first, b[n].x, b[n].y);
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (first + n < tiles) mma_bf16(sums[first + n], w.second, b[n].z, b[n].w);
      }
    }
  }

 private:
  // Byte offsets in a stage. weights_: offset of the tile of the warp's strip. columns_[i]: offset of the
  // lane's activations in columns 32 i to 32 i + 31 of a tile.
  uint32_t weights_, columns_[2];
};

}  // namespace nibble::cuda
