// Matrix products of many tokens (pipeline.cuh): MXFP4 weights times block-scaled activations (block_rows.h).
// An item, which a CTA multiplies at once, is 192 rows x 64 columns. GPUs without the block-scaled
// instruction emulate it (ptx/block_mma.cuh). To add a tile of 64 columns to a sum takes one instruction with
// MXFP4 activations, two with MXFP8 (one per 32 columns), and four with MXFP8x2 (two for the first terms, two
// for the second). The order of additions within an instruction is unknown, so the bits of the results differ
// from those of stream.cuh.
#pragma once

#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/pipeline/pipeline.cuh"
#include "backend/cuda/ptx/block_mma.cuh"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

struct WholeBlockRows : BlockRows {  // block-scaled rows in global memory, padded to whole tiles
  __device__ explicit WholeBlockRows(const BlockRows& rows) : BlockRows(rows) {}
  __device__ const uint8_t* row(int i) const { return codes + i * row_bytes(*this); }
  __device__ bool has_piece(int) const { return true; }
  __device__ const uint32_t* scales_of(int i) const { return scales + size_t{1} * i * num_tiles(*this); }
};

template <BlockFormat format>
class BlockLane;

// `gathered_bytes`: bytes of shared memory after the stages, in which the kernel of experts_up() gathers rows
// of results.
template <BlockFormat format, int gathered_bytes = 0>
struct BlockShape : PromptWarps {
  static constexpr Layout kLayout{Layout::kMxfp4};
  static constexpr int kColumnWarps{1}, kRowWarps{kWarps}, kStrips{kWarps}, kColumns{kWarpColumns};
  static constexpr int kRowBytes{row_tile_bytes(format)}, kScaleBytes{4};
  static constexpr int kWeightBytes{kStrips * tile_bytes(kLayout)},
      kStageBytes{kWeightBytes + kColumns * (kRowBytes + kScaleBytes)};
  // kStages is the number of stages that fit in kMostBytes, but at most kMostStages: more gain nothing.
  static constexpr int kMostBytes{98 << 10}, kMostStages{8},
      kFitting{(kMostBytes - gathered_bytes) / stages_bytes(1, kStageBytes)},
      kStages{kFitting < kMostStages ? kFitting : kMostStages};
  static constexpr int kStagesBytes{stages_bytes(kStages, kStageBytes)},
      kBytes{kStagesBytes + gathered_bytes};
  static_assert(kStageBytes % 16 == 0 && kBytes <= kMostBytes);
  using Rows = WholeBlockRows;
  using Lane = BlockLane<format>;
};

template <BlockFormat format>
class BlockLane {
  using Shape = BlockShape<format>;
  static constexpr BlockForm kForm{form_of(format)};
  static constexpr int kTerms{num_terms(format)};

 public:
  __device__ BlockLane() {
    const int g = lane_ / 4, t = lane_ % 4;
    weights_ = static_cast<int>(threadIdx.x) / 32 * tile_bytes(Shape::kLayout);
    for (int term = 0; term < kTerms; ++term)
      columns_[term] = Shape::kWeightBytes + g * Shape::kRowBytes +
                       (kTerms == 2 ? (term ^ (g % 2)) * 64 : 0) + 2 * t * eight_bytes(format);
    scales_ = Shape::kWeightBytes + Shape::kColumns * Shape::kRowBytes + g * 4;
  }

  template <int tiles>
  __device__ void add_stage(uint32_t stage, PromptSums& sums) const {
    const uint4 codes = load_shared_16(stage + weights_ + lane_ * 16);
    const uint32_t a_scales =
        weight_scales(load_shared_4(stage + weights_ + kTileCodeBytes + lane_ / 4 * 4), lane_);
    // Instructions of two sums alternate, because an instruction waits for the previous one of the same sum.
    // Four sums would need too many registers.
    constexpr int kAtOnce{2};
    static_assert(tiles % 2 == 0);
    if constexpr (kForm == BlockForm::kMxfp8) {
      Weights a;
      a.scales = a_scales;
      unpack_containers(codes.x, codes.y, a.first);
      unpack_containers(codes.z, codes.w, a.second);
#pragma unroll
      for (int at = 0; at < tiles; at += kAtOnce) {
        uint32_t b_scales[kAtOnce];
        load_scales<tiles>(stage, at, b_scales);
        add_term<tiles, 0>(stage, at, a, b_scales, sums);
        if constexpr (kTerms == 2) add_term<tiles, 1>(stage, at, a, b_scales, sums);
      }
    } else {
      const uint32_t words[]{codes.x, codes.y, codes.z, codes.w};
      uint32_t a[4];
      unpack_nibbles(words, a);
#pragma unroll
      for (int at = 0; at < tiles; at += kAtOnce) {
        uint32_t b_scales[kAtOnce];
        uint2 b[kAtOnce];
        load_scales<tiles>(stage, at, b_scales);
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (at + n < tiles) b[n] = load_shared_8(stage + columns_[0] + 8 * (at + n) * Shape::kRowBytes);
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (at + n < tiles)
            block_mma<kForm, 0, 0>(sums[at + n], a, {b[n].x, b[n].y}, a_scales, b_scales[n]);
      }
    }
  }

 private:
  // A lane's A registers for columns 0-31 (first) and 32-63 (second) of a tile, and the scales of both.
  struct Weights {
    uint32_t first[4], second[4], scales;
  };

  template <int tiles, int count>
  __device__ void load_scales(uint32_t stage, int at, uint32_t (&scales)[count]) const {
#pragma unroll
    for (int n = 0; n < count; ++n)
      if (at + n < tiles) scales[n] = load_shared_4(stage + scales_ + 8 * (at + n) * 4);
  }

  template <int tiles, int term, int count>
  __device__ void add_term(uint32_t stage, int at, const Weights& a, const uint32_t (&b_scales)[count],
                           PromptSums& sums) const {
    uint4 b[count];
#pragma unroll
    for (int n = 0; n < count; ++n)
      if (at + n < tiles) b[n] = load_shared_16(stage + columns_[term] + 8 * (at + n) * Shape::kRowBytes);
#pragma unroll
    for (int n = 0; n < count; ++n)
      if (at + n < tiles)
        block_mma<kForm, 0, 2 * term>(sums[at + n], a.first, {b[n].x, b[n].y}, a.scales, b_scales[n]);
#pragma unroll
    for (int n = 0; n < count; ++n)
      if (at + n < tiles)
        block_mma<kForm, 1, 2 * term + 1>(sums[at + n], a.second, {b[n].z, b[n].w}, a.scales, b_scales[n]);
  }

  const int lane_{static_cast<int>(threadIdx.x) % 32};
  uint32_t weights_, columns_[kTerms], scales_;  // byte offsets of the lane's data in each stage
};

}  // namespace nibble::cuda
