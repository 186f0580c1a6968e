// The matrix products of many tokens. A CTA of 8 warps multiplies rows of the weights with columns, which are tokens, or pairs of a
// token and an expert. A warp takes two strips and up to 64 columns:
//
//   MXFP4         8 warps below each other:            256 rows x  64 columns
//   E4M3, BF16    4 below and 2 beside each other:     128 rows x 128 columns, because their weights are 2 and 4 times as many bytes
//
// The contraction passes through stages in shared memory, one tile of 64 columns of weights and activations each. All threads copy
// them with cp.async, which every family has; a stage is filled again one barrier after it was read. 99 KB hold 3 to 5 stages, so
// one kernel serves all families.
//
// CTAs are persistent: each takes items (rows and columns of a product), and copies the first stages of the next item while it
// multiplies the last of this one.
//
// The order of additions is that of linear.cu and experts.cu: segment by segment, and cut into two parts at the same places. So a
// token gets the same bits from either.
#pragma once

#include "backend/cuda/fragments.cuh"
#include "backend/cuda/kernels.h"

namespace nibble::cuda {

template <Layout layout>
struct PromptShape {
  static constexpr int kWarps{8}, kThreads{32 * kWarps};
  static constexpr int kColumnWarps{layout == Layout::kMxfp4 ? 1 : 2}, kRowWarps{kWarps / kColumnWarps};
  static constexpr int kWarpStrips{2}, kStrips{kRowWarps * kWarpStrips};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns: n of mma.m16n8k16
  static constexpr int kWarpColumns{8 * kWarpTiles}, kColumns{kColumnWarps * kWarpColumns};
  static constexpr int kRowBytes{2 * kTileCols};  // of a column's activations in a tile
  static constexpr int kWeightBytes{kStrips * tile_bytes(layout)},
      kStageBytes{kWeightBytes + kColumns * kRowBytes};
  static constexpr int kStages{layout == Layout::kMxfp4 ? 5 : layout == Layout::kE4m3 ? 4 : 3};
  static constexpr int kBytes{kStages * kStageBytes};
  static_assert(kBytes <= (98 << 10));
};

// What a CTA multiplies next. `columns`: how many columns hold a token or a pair; num_tiles: how many tiles of 8 columns each warp
// takes.
struct PromptItem {
  int matrix, first_strip, first_column, columns;
};

// Copies stages. Each thread copies the same 16-byte pieces of every stage, so it keeps their addresses. `Items` says where they are:
// items.count(), items.at(index) and items.row(item, column), the row of `activations` that a column is.
template <Layout layout, typename Items>
class StageCopier {
  using Shape = PromptShape<layout>;

 public:
  __device__ StageCopier(const Strips& weights, const __nv_bfloat16* activations, int cols,
                         const Items& items, uint8_t* stages)
      : weights_(weights),
        activations_(activations),
        cols_(cols),
        items_(items),
        stages_(static_cast<uint32_t>(__cvta_generic_to_shared(stages))),
        item_(static_cast<int>(blockIdx.x)) {
    start_item();
  }

  // Starts to copy the next tile, of this item or the one after it. Counts as a copy where nothing is left.
  __device__ void copy_next() {
    if (item_ < items_.count()) {
      copy_tile();
      if (++tile_ == weights_.num_tiles) {
        item_ += static_cast<int>(gridDim.x);
        start_item();
      }
    }
    stage_ = stage_ + 1 == Shape::kStages ? 0 : stage_ + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

 private:
  static constexpr int kPieces{tile_bytes(layout) / 16};  // of a strip's tile
  static constexpr int kWeightCopies{(Shape::kStrips * kPieces + Shape::kThreads - 1) / Shape::kThreads};
  static constexpr int kRowPieces{Shape::kRowBytes / 16};
  static constexpr int kRowsAtOnce{Shape::kThreads / kRowPieces};
  static constexpr int kRowCopies{Shape::kColumns / kRowsAtOnce};

  __device__ void start_item() {
    if (item_ >= items_.count()) return;
    tile_ = 0;
    const PromptItem item = items_.at(item_);
    const int thread = static_cast<int>(threadIdx.x);
    const uint8_t* matrix = weights_.data + item.matrix * weights_.matrix_bytes();
#pragma unroll
    for (int n = 0; n < kWeightCopies; ++n) {
      const int i = n * Shape::kThreads + thread, strip = item.first_strip + i / kPieces;
      const bool is_there = i < Shape::kStrips * kPieces && strip < weights_.num_strips;
      weights_at_[n] =
          is_there ? matrix + size_t{1} * strip * weights_.strip_bytes + i % kPieces * 16 : nullptr;
    }
#pragma unroll
    for (int n = 0; n < kRowCopies; ++n) {
      const int column = n * kRowsAtOnce + thread / kRowPieces;
      rows_at_[n] = column < item.columns ? activations_ + size_t{1} * items_.row(item, column) * cols_ +
                                                thread % kRowPieces * 8
                                          : nullptr;
    }
  }

  __device__ void copy_tile() {
    const int thread = static_cast<int>(threadIdx.x);
    const uint32_t stage = stages_ + stage_ * Shape::kStageBytes;
#pragma unroll
    for (int n = 0; n < kWeightCopies; ++n)
      if (weights_at_[n]) {
        copy(stage + (n * Shape::kThreads + thread) * 16, weights_at_[n], 16);
        weights_at_[n] += tile_bytes(layout);
      }
    // Pieces 0-3 and 4-7 change places in every second row, so that the lanes of two rows read from different banks.
    const int row = thread / kRowPieces, piece = (thread % kRowPieces) ^ (row % 2 * 4);
    const int num_bytes = tile_ * kTileCols + thread % kRowPieces * 8 < cols_ ? 16 : 0;
#pragma unroll
    for (int n = 0; n < kRowCopies; ++n)
      if (rows_at_[n]) {
        copy(stage + Shape::kWeightBytes + (n * kRowsAtOnce + row) * Shape::kRowBytes + piece * 16,
             num_bytes ? rows_at_[n] : activations_, num_bytes);
        rows_at_[n] += kTileCols;
      }
  }

  // Copies num_bytes, 16 or 0, and fills up with zeros.
  static __device__ void copy(uint32_t to, const void* from, int num_bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(num_bytes)
                 : "memory");
  }

  const Strips& weights_;
  const __nv_bfloat16* activations_;
  const int cols_;
  const Items& items_;
  const uint32_t stages_;
  int item_, tile_{0}, stage_{0};
  const uint8_t* weights_at_[kWeightCopies];
  const __nv_bfloat16* rows_at_[kRowCopies];
};

// A warp's sums: of its two strips, for up to 64 columns. In lane (g, t) element [strip][n][i] is of row g + 8 (i / 2) and of column
// 8 n + 2 t + i % 2.
template <Layout layout>
using PromptSums = float[PromptShape<layout>::kWarpStrips][PromptShape<layout>::kWarpTiles][4];

// Adds the products of a stage. The first `tiles` tiles of columns are multiplied, without a branch between them: their loads and
// products overlap. Columns past the item's are multiplied with what the stage happens to hold, and nobody reads their sums.
template <Layout layout, int tiles>
__device__ void add_stage(const uint8_t* stage, PromptSums<layout>& sums) {
  using Shape = PromptShape<layout>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            g = lane / 4;
  const uint8_t* weights = stage + warp % Shape::kRowWarps * Shape::kWarpStrips * tile_bytes(layout);
  const uint8_t* columns = stage + Shape::kWeightBytes +
                           (warp / Shape::kRowWarps * Shape::kWarpColumns + g) * Shape::kRowBytes +
                           lane % 4 * 16;
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    GroupWeights w[Shape::kWarpStrips];
#pragma unroll
    for (int s = 0; s < Shape::kWarpStrips; ++s)
      w[s] = group_weights<layout>(weights + s * tile_bytes(layout), group);
    const uint8_t* of_group = columns + (group ^ (g % 2)) * 64;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const uint4 b = *reinterpret_cast<const uint4*>(of_group + 8 * n * Shape::kRowBytes);
#pragma unroll
      for (int s = 0; s < Shape::kWarpStrips; ++s) add_group(w[s], b, sums[s][n]);
    }
  }
}

// Multiplies all items of this CTA. `cuts`: how many CTAs share the matrix where it is cut anywhere, 0 if strips are whole
// (strips.h). take(item, strip, part, is_whole, sums): `sums` are the totals of one strip, of which n tiles of columns are there.
template <Layout layout, typename Items, typename Take>
__device__ void multiply_items(const Strips& weights, const __nv_bfloat16* activations, int cols,
                               const Items& items, unsigned cuts, const Take& take) {
  using Shape = PromptShape<layout>;
  extern __shared__ __align__(128) uint8_t stages[];
  StageCopier<layout, Items> copier(weights, activations, cols, items, stages);
#pragma unroll
  for (int n = 0; n < Shape::kStages - 1; ++n) copier.copy_next();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int stage = 0;
  for (int index = static_cast<int>(blockIdx.x); index < items.count();
       index += static_cast<int>(gridDim.x)) {
    const PromptItem item = items.at(index);
    const int strip = item.first_strip + warp % Shape::kRowWarps * Shape::kWarpStrips;
    const int columns = item.columns - warp / Shape::kRowWarps * Shape::kWarpColumns;
    const bool works = strip < weights.num_strips && columns > 0;
    int cut[Shape::kWarpStrips];
#pragma unroll
    for (int s = 0; s < Shape::kWarpStrips; ++s)
      cut[s] =
          cuts && strip + s < weights.num_strips ? cut_of(weights, strip + s, cuts) : weights.num_segments;
    PromptSums<layout> totals{};
    int tile = 0;
    for (int segment = 0; segment < weights.num_segments; ++segment) {
      const int last = min(tile + weights.segment_tiles, weights.num_tiles);
      PromptSums<layout> sums{};
      for (; tile < last; ++tile) {
        asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 2) : "memory");
        __syncthreads();
        copier.copy_next();  // into the stage that all warps have left
        const uint8_t* at = stages + stage * Shape::kStageBytes;
        stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
        if (!works) continue;
        if (columns > 48)
          add_stage<layout, 8>(at, sums);
        else if (columns > 32)
          add_stage<layout, 6>(at, sums);
        else if (columns > 16)
          add_stage<layout, 4>(at, sums);
        else
          add_stage<layout, 2>(at, sums);
      }
      if (!works) continue;
#pragma unroll
      for (int s = 0; s < Shape::kWarpStrips; ++s) {
        const bool starts = segment == 0 || segment == cut[s];
#pragma unroll
        for (int n = 0; n < Shape::kWarpTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            totals[s][n][i] = starts ? sums[s][n][i] : totals[s][n][i] + sums[s][n][i];
        const int next = segment + 1;
        if ((next == cut[s] || next == weights.num_segments) && strip + s < weights.num_strips)
          take(item, strip + s, segment >= cut[s], cut[s] == weights.num_segments, totals[s]);
      }
    }
  }
}

// The first of the item's columns that the lane has sums of.
template <Layout layout>
__device__ int first_column_of_lane() {
  using Shape = PromptShape<layout>;
  return static_cast<int>(threadIdx.x) / 32 / Shape::kRowWarps * Shape::kWarpColumns +
         static_cast<int>(threadIdx.x) % 4 * 2;
}

// Calls visit(i, upper, lower) for each of the item's columns that the lane has sums of: column first_column_of_lane() + i. `upper` and
// `lower` are the sums of rows g and g + 8.
template <Layout layout, typename Visit>
__device__ void for_each_column(const PromptItem& item,
                                const float (&sums)[PromptShape<layout>::kWarpTiles][4], const Visit& visit) {
  const int count = item.columns - first_column_of_lane<layout>();
#pragma unroll
  for (int n = 0; n < PromptShape<layout>::kWarpTiles; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      if (8 * n + c < count) visit(8 * n + c, sums[n][c], sums[n][c + 2]);
}

}  // namespace nibble::cuda
