// The matrix products of many tokens. Twelve warps of a CTA multiply rows of the weights with columns, which are tokens, or pairs of a
// token and an expert. A warp takes one strip and up to 64 columns:
//
//   MXFP4         12 warps below each other:           192 rows x  64 columns
//   E4M3, BF16    6 below and 2 beside each other:      96 rows x 128 columns, because their weights are 2 and 4 times as many bytes
//
// The contraction passes through stages in shared memory, one tile of 64 columns of weights and activations each. Four more warps copy
// them with cp.async, which every family has, and run ahead as far as there are stages. A stage has two barriers: `full` tells the twelve
// that the copies have arrived, `empty` tells the four that all twelve have read it. So the twelve do not wait for each other, and one
// that stores its sums leaves the tensor cores to the others. 99 KB hold 3 to 6 stages: one kernel serves all families.
//
// CTAs are persistent: each takes items (rows and columns of a product), and the next item's first stages are copied while this one's last
// are multiplied.
//
// The order of additions is that of linear.cu and experts.cu: segment by segment, and cut into two parts at the same places. So a
// token gets the same bits from either.
#pragma once

#include "backend/cuda/fragments.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"

namespace nibble::cuda {

template <Layout layout>
struct PromptShape {
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)};
  static constexpr int kColumnWarps{layout == Layout::kMxfp4 ? 1 : 2}, kRowWarps{kWarps / kColumnWarps};
  static constexpr int kStrips{kRowWarps};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns: n of mma.m16n8k16
  static constexpr int kWarpColumns{8 * kWarpTiles}, kColumns{kColumnWarps * kWarpColumns};
  static constexpr int kRowBytes{2 * kTileCols};  // of a column's activations in a tile
  static constexpr int kWeightBytes{kStrips * tile_bytes(layout)},
      kStageBytes{kWeightBytes + kColumns * kRowBytes};
  static constexpr int kStages{layout == Layout::kMxfp4 ? 6 : layout == Layout::kE4m3 ? 4 : 3};
  static constexpr int kBytes{kStages * kStageBytes + 2 * kStages * static_cast<int>(sizeof(uint64_t))};
  static_assert(kBytes <= (98 << 10));
};

// What a CTA multiplies next. `columns`: how many columns hold a token or a pair; num_tiles: how many tiles of 8 columns each warp
// takes.
struct PromptItem {
  int matrix, first_strip, first_column, columns;
};

// The stages in shared memory and their barriers.
template <Layout layout>
class Stages {
  using Shape = PromptShape<layout>;

 public:
  // Called by the whole CTA.
  __device__ explicit Stages(uint8_t* memory)
      : memory_(shared_address(memory)), is_first_lane_(threadIdx.x % 32 == 0), full_(memory_ + kBarriers) {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < Shape::kStages; ++stage) {
        init_barrier(full_ + stage * 8, 32 * Shape::kCopyWarps);
        init_barrier(full_ + kToEmpty + stage * 8, Shape::kWarps);
      }
      fence_barrier_init();
    }
    __syncthreads();
  }
  __device__ uint32_t address() const { return stage_; }  // of this stage, in shared memory
  __device__ void wait_until_full() const { wait(full_, phase_); }
  __device__ void wait_until_empty() const { wait(full_ + kToEmpty, phase_ ^ 1); }  // at first every stage is
  __device__ void tell_when_full() const { arrive_after_copies(full_); }
  // Called by a whole warp that has read the stage.
  __device__ void tell_empty() const {
    __syncwarp();
    if (is_first_lane_) arrive(full_ + kToEmpty);
  }
  __device__ void advance() {
    stage_ += Shape::kStageBytes;
    full_ += 8;
    if (stage_ != memory_ + kBarriers) return;
    stage_ = memory_;
    full_ = memory_ + kBarriers;
    phase_ ^= 1;
  }

 private:
  static constexpr int kBarriers{Shape::kStages * Shape::kStageBytes}, kToEmpty{8 * Shape::kStages};

  const uint32_t memory_;
  const bool is_first_lane_;
  uint32_t stage_{memory_}, full_;  // of this stage: its address, and that of its full barrier
  uint32_t phase_{0};
};

// The warps that copy. `Items` says what: items.count(), items.at(index) and items.row(item, column), the row of `activations` that a
// column is. A lane copies the same 16-byte pieces of every stage.
template <Layout layout, typename Items>
__device__ void copy_items(const Strips& weights, const __nv_bfloat16* activations, int cols,
                           const Items& items, Stages<layout> stages) {
  using Shape = PromptShape<layout>;
  constexpr int kLanes{32 * Shape::kCopyWarps};
  constexpr int kPieces{tile_bytes(layout) / 16};  // of a strip's tile
  constexpr int kWeightCopies{(Shape::kStrips * kPieces + kLanes - 1) / kLanes};
  constexpr int kRowPieces{Shape::kRowBytes / 16}, kRowsAtOnce{kLanes / kRowPieces},
      kRowCopies{Shape::kColumns / kRowsAtOnce};
  const int lane = static_cast<int>(threadIdx.x) - 32 * Shape::kWarps;
  const int row = lane / kRowPieces, piece = lane % kRowPieces;
  // Pieces 0-3 and 4-7 change places in every second row, so that the lanes of two rows read from different banks.
  const int row_place = Shape::kWeightBytes + row * Shape::kRowBytes + (piece ^ (row % 2 * 4)) * 16;
  for (int index = static_cast<int>(blockIdx.x); index < items.count();
       index += static_cast<int>(gridDim.x)) {
    const PromptItem item = items.at(index);
    const uint8_t* matrix = weights.data + item.matrix * weights.matrix_bytes() +
                            size_t{1} * item.first_strip * weights.strip_bytes;
    const int num_pieces = min(Shape::kStrips, weights.num_strips - item.first_strip) * kPieces;
    const __nv_bfloat16* rows[kRowCopies];
#pragma unroll
    for (int n = 0; n < kRowCopies; ++n)
      if (const int column = n * kRowsAtOnce + row; column < item.columns)
        rows[n] = activations + size_t{1} * items.row(item, column) * cols + 8 * piece;
    int weight_offsets[kWeightCopies];
#pragma unroll
    for (int n = 0; n < kWeightCopies; ++n) {
      const int i = n * kLanes + lane;
      weight_offsets[n] = i / kPieces * weights.strip_bytes + i % kPieces * 16;
    }
    for (int tile = 0; tile < weights.num_tiles; ++tile) {
      stages.wait_until_empty();
      const uint32_t stage = stages.address();
#pragma unroll
      for (int n = 0; n < kWeightCopies; ++n)
        if (n * kLanes + lane < num_pieces)
          copy_16(stage + (n * kLanes + lane) * 16, matrix + weight_offsets[n]);
      matrix += tile_bytes(layout);
      const bool is_there = tile * kTileCols + 8 * piece < cols;
#pragma unroll
      for (int n = 0; n < kRowCopies; ++n)
        if (n * kRowsAtOnce + row < item.columns)
          copy_16(stage + row_place + n * kRowsAtOnce * Shape::kRowBytes,
                  is_there ? rows[n] + tile * kTileCols : activations, is_there ? 16 : 0);
      stages.tell_when_full();
      stages.advance();
    }
  }
}

// A warp's sums: of its strip, for up to 64 columns. In lane (g, t) element [n][i] is of row g + 8 (i / 2) and of column
// 8 n + 2 t + i % 2.
template <Layout layout>
using PromptSums = float[PromptShape<layout>::kWarpTiles][4];

// Where a lane reads in each stage.
template <Layout layout>
struct LanePlaces {
  uint32_t weights, columns[2];  // columns: of the first and second group of 32

  __device__ LanePlaces() {
    using Shape = PromptShape<layout>;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
              g = lane / 4;
    weights = warp % Shape::kRowWarps * tile_bytes(layout);
    for (int group = 0; group < 2; ++group)
      columns[group] = Shape::kWeightBytes +
                       (warp / Shape::kRowWarps * Shape::kWarpColumns + g) * Shape::kRowBytes +
                       (group ^ (g % 2)) * 64 + lane % 4 * 16;
  }
};

// Adds the products of a stage with the first `tiles` tiles of columns. Columns past the item's are multiplied with what the stage happens
// to hold, and nobody reads their sums.
template <Layout layout, int tiles>
__device__ void add_stage(uint32_t stage, const LanePlaces<layout>& places, PromptSums<layout>& sums) {
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    const GroupWeights w = group_weights<layout>(stage + places.weights, group);
    // Several sums at a time, first one product of each and then the other: a sum's second product waits for its first.
    constexpr int kAtOnce{tiles < 4 ? tiles : 4};
#pragma unroll
    for (int first = 0; first < tiles; first += kAtOnce) {
      uint4 b[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (first + n < tiles)
          b[n] = load_shared_16(stage + places.columns[group] +
                                8 * (first + n) * PromptShape<layout>::kRowBytes);
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (first + n < tiles) mma(sums[first + n], w.first, b[n].x, b[n].y);
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (first + n < tiles) mma(sums[first + n], w.second, b[n].z, b[n].w);
    }
  }
}

// Adds up segments [first, last) of the warp's strip in `totals`.
template <Layout layout, int tiles>
__device__ void add_segments(const Strips& weights, int first, int last, const LanePlaces<layout>& places,
                             Stages<layout>& stages, PromptSums<layout>& totals) {
  for (int segment = first; segment < last; ++segment) {
    const int num_tiles = min(weights.segment_tiles, weights.num_tiles - segment * weights.segment_tiles);
    PromptSums<layout> sums{};
    for (int tile = 0; tile < num_tiles; ++tile) {
      stages.wait_until_full();
      add_stage<layout, tiles>(stages.address(), places, sums);
      stages.tell_empty();
      stages.advance();
    }
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) totals[n][i] = segment == first ? sums[n][i] : totals[n][i] + sums[n][i];
  }
}

// Lets the stages of an item pass.
template <Layout layout>
__device__ void skip_item(const Strips& weights, Stages<layout>& stages) {
  for (int tile = 0; tile < weights.num_tiles; ++tile) {
    stages.wait_until_full();
    stages.tell_empty();
    stages.advance();
  }
}

// Multiplies all items of this CTA. `cuts`: how many CTAs share the matrix where it is cut anywhere, 0 if strips are whole
// (strips.h). take(item, strip, part, is_whole, sums): `sums` are those of one strip.
template <Layout layout, typename Items, typename Take>
__device__ void multiply_items(const Strips& weights, const __nv_bfloat16* activations, int cols,
                               const Items& items, unsigned cuts, const Take& take) {
  using Shape = PromptShape<layout>;
  extern __shared__ __align__(128) uint8_t memory[];
  Stages<layout> stages(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32, first_index = static_cast<int>(blockIdx.x);
  if (warp >= Shape::kWarps) {
    copy_items<layout>(weights, activations, cols, items, stages);
    return;
  }
  const LanePlaces<layout> places;
  PromptItem next = items.at(min(first_index, items.count() - 1));
  for (int index = first_index; index < items.count(); index += static_cast<int>(gridDim.x)) {
    const PromptItem item = next;
    next = items.at(min(index + static_cast<int>(gridDim.x), items.count() - 1));  // long before it is needed
    const int strip = item.first_strip + warp % Shape::kRowWarps;
    const int columns = item.columns - warp / Shape::kRowWarps * Shape::kWarpColumns;
    if (strip >= weights.num_strips || columns <= 0) {
      skip_item(weights, stages);
      continue;
    }
    const int cut = cuts ? cut_of(weights, strip, cuts) : weights.num_segments;
    for (int first = 0; first < weights.num_segments;) {
      const int last = first < cut ? cut : weights.num_segments;
      PromptSums<layout> totals{};
      if (columns > 48)
        add_segments<layout, 8>(weights, first, last, places, stages, totals);
      else if (columns > 32)
        add_segments<layout, 6>(weights, first, last, places, stages, totals);
      else if (columns > 16)
        add_segments<layout, 4>(weights, first, last, places, stages, totals);
      else
        add_segments<layout, 2>(weights, first, last, places, stages, totals);
      take(item, strip, first > 0, last - first == weights.num_segments, totals);
      first = last;
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
