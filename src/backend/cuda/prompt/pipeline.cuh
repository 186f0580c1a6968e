// The matrix products of many tokens. Twelve warps of a CTA multiply rows of the weights with columns, which are tokens, or pairs of a
// token and an expert. A warp takes one strip and up to 64 columns. How many warps lie below and beside each other, what a stage holds
// and which instruction multiplies it is said by a shape: that of bfloat16 columns (bf16_columns.cuh), or of block-scaled ones
// (block_columns.cuh).
//
// The contraction passes through stages in shared memory, one tile of 64 columns of weights and activations each. Four more warps copy
// them with cp.async, which every family has, and run ahead as far as there are stages. A stage has two barriers: `full` tells the twelve
// that the copies have arrived, `empty` tells the four that all twelve have read it. So the twelve do not wait for each other, and one
// that stores its sums leaves the tensor cores to the others. 99 KB hold 3 to 8 stages: one kernel serves all families.
//
// CTAs are persistent: each takes items (rows and columns of a product), and the next item's first stages are copied while this one's last
// are multiplied.
//
// The order of additions is that of decode/: segment by segment, and cut into two parts at the same places. So a
// token gets the same bits from either, if the instruction is the same.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/prompt_warps.h"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace nibble::cuda {

// A shape is derived from PromptWarps, and also has
//
//   kLayout       of the weights
//   kColumnWarps, kRowWarps, kStrips, kColumns: how the warps divide an item
//   kRowBytes     of a column's activations in a tile
//   kScaleBytes   of a column's scales in a tile, 0 or 4
//   kStages, kStageBytes, kBytes: stages, and all shared memory
//   kWeightPlace, kColumnPlace, kScalePlace: where a stage has them; piece_place(c, p): where the columns have 16 bytes number p of column c
//   kIsWgmma      which instruction multiplies: wgmma, for four warps together (wgmma_columns.cuh), or one for each warp
//   Rows          the activations in global memory: row(i) is the beginning of a row, has_piece(p) whether it has 16 bytes number p (a
//                 row may end within a tile) and, where there are scales, scales_of(i) are those of its tiles
//   Lane          what a lane reads of a stage and multiplies: add_stage<tiles>(stage, sums)

// A warp's sums: of its strip, for up to 64 columns. In lane (g, t) element [n][i] is of row g + 8 (i / 2) and of column
// 8 n + 2 t + i % 2.
using PromptSums = float[PromptWarps::kWarpTiles][4];

// A CTA multiplies item after item. In each so many columns hold a token or a pair.
struct PromptItem {
  int matrix, first_strip, first_column, columns;
};

template <typename Shape>
constexpr int row_blocks(const Strips& weights) {
  return (weights.num_strips + Shape::kStrips - 1) / Shape::kStrips;
}

// The launch of so many items: a CTA for each, up to one on every multiprocessor.
template <typename Shape>
LaunchShape shape_for_items(const Target& target, int num_items) {
  return {dim3(static_cast<unsigned>(std::min(num_items, target.num_multiprocessors))), Shape::kThreads,
          Shape::kBytes};
}

// The stages in shared memory and their barriers.
template <typename Shape>
class Stages {
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
  __device__ void tell_full() const { arrive(full_); }
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

// The bytes that the stages of a shape take, with their barriers.
constexpr int stages_bytes(int num_stages, int stage_bytes) {
  return num_stages * (stage_bytes + 2 * static_cast<int>(sizeof(uint64_t)));
}

// How the copies of a stage tell that they have arrived: by themselves.
template <typename Shape>
struct CopiesThatTell {
  __device__ explicit CopiesThatTell(const Stages<Shape>&) {}
  __device__ void end_stage(const Stages<Shape>& stage) const { stage.tell_when_full(); }
  __device__ void end() const {}
};
// By the threads that issued them, where wgmma reads the stage: that takes a fence of theirs behind the copies. So these are waited for, when
// those of the next kLater stages are under way.
template <typename Shape>
class CopiesInOrder {
 public:
  __device__ explicit CopiesInOrder(const Stages<Shape>& stages) : oldest_(stages) {}
  __device__ void end_stage(const Stages<Shape>&) {
    end_copies();
    if (num_open_++ < kLater) return;
    wait_for_copies<kLater>();
    tell_oldest();
  }
  __device__ void end() {
    wait_for_copies<0>();
    while (num_open_ > 0) tell_oldest();
  }

 private:
  static constexpr int kLater{2};
  static_assert(Shape::kStages > kLater + 1);

  __device__ void tell_oldest() {
    fence_for_products();
    oldest_.tell_full();
    oldest_.advance();
    --num_open_;
  }

  Stages<Shape> oldest_;  // that was not told
  int num_open_{0};
};

// The warps that copy. `Items` says what: items.count(), items.at(index) and items.row(item, column), the row of `activations` that a
// column is. A lane copies the same pieces of every stage.
template <typename Shape, typename Items>
__device__ void copy_items(const Strips& weights, const typename Shape::Rows& activations, const Items& items,
                           Stages<Shape> stages) {
  constexpr int kLanes{32 * Shape::kCopyWarps};
  constexpr int kPieces{tile_bytes(Shape::kLayout) / 16};  // of a strip's tile
  constexpr int kWeightCopies{(Shape::kStrips * kPieces + kLanes - 1) / kLanes};
  constexpr int kRowPieces{Shape::kRowBytes / 16}, kRowsAtOnce{kLanes / kRowPieces},
      kRowCopies{Shape::kColumns / kRowsAtOnce};
  const int lane = static_cast<int>(threadIdx.x) - 32 * Shape::kWarps;
  const int row = lane / kRowPieces, piece = lane % kRowPieces;
  static_assert(kRowsAtOnce % 8 == 0, "a piece's place depends on its column modulo 8");
  const int row_place = Shape::kColumnPlace + Shape::piece_place(row, piece);
  static_assert(Shape::kScaleBytes == 0 || Shape::kColumns <= kLanes);
  std::conditional_t<Shape::kIsWgmma, CopiesInOrder<Shape>, CopiesThatTell<Shape>> copies(stages);
  for (int index = static_cast<int>(blockIdx.x); index < items.count();
       index += static_cast<int>(gridDim.x)) {
    const PromptItem item = items.at(index);
    const uint8_t* matrix = weights.data + item.matrix * weights.matrix_bytes() +
                            size_t{1} * item.first_strip * weights.strip_bytes;
    const int num_pieces = min(Shape::kStrips, weights.num_strips - item.first_strip) * kPieces;
    const uint8_t* const all_rows = activations.row(0) + 16 * piece;
    uint32_t rows[kRowCopies];  // in 16 bytes
#pragma unroll
    for (int n = 0; n < kRowCopies; ++n)
      if (const int column = n * kRowsAtOnce + row; column < item.columns)
        rows[n] = static_cast<uint32_t>((activations.row(items.row(item, column)) - activations.row(0)) / 16);
    const uint32_t* scales = nullptr;
    if constexpr (Shape::kScaleBytes > 0)
      if (lane < item.columns) scales = activations.scales_of(items.row(item, lane));
    const auto weight_offset = [&](int n) {
      const int i = n * kLanes + lane;
      return i / kPieces * weights.strip_bytes + i % kPieces * 16;
    };
    // Where all pieces of a strip are copied at once, the next offset is a constant step away; else offsets are kept.
    constexpr bool kSteps{kLanes % kPieces == 0};
    int weight_offsets[kSteps ? 1 : kWeightCopies];
    for (int n = 0; n < (kSteps ? 1 : kWeightCopies); ++n) weight_offsets[n] = weight_offset(n);
    for (int tile = 0; tile < weights.num_tiles; ++tile) {
      stages.wait_until_empty();
      const uint32_t stage = stages.address();
#pragma unroll
      for (int n = 0; n < kWeightCopies; ++n)
        if (n * kLanes + lane < num_pieces)
          copy_16(stage + Shape::kWeightPlace + (n * kLanes + lane) * 16,
                  matrix + (kSteps ? weight_offsets[0] + n * (kLanes / kPieces) * weights.strip_bytes
                                   : weight_offsets[n]));
      matrix += tile_bytes(Shape::kLayout);
      const bool is_there = activations.has_piece(tile * kRowPieces + piece);
#pragma unroll
      for (int n = 0; n < kRowCopies; ++n)
        if (n * kRowsAtOnce + row < item.columns)
          copy_16(stage + row_place + n * kRowsAtOnce * Shape::kRowBytes,
                  is_there ? all_rows + size_t{16} * rows[n] + tile * Shape::kRowBytes : activations.row(0),
                  is_there ? 16 : 0);
      if constexpr (Shape::kScaleBytes > 0)
        if (lane < item.columns) copy_4(stage + Shape::kScalePlace + lane * 4, scales + tile);
      copies.end_stage(stages);
      stages.advance();
    }
  }
  copies.end();
}

// Adds up segments [first, last) of the warp's strip in `totals`.
template <typename Shape, int tiles>
__device__ void add_segments(const Strips& weights, int first, int last, const typename Shape::Lane& lane,
                             Stages<Shape>& stages, PromptSums& totals) {
  for (int segment = first; segment < last; ++segment) {
    const int num_tiles = min(weights.segment_tiles, weights.num_tiles - segment * weights.segment_tiles);
    PromptSums sums{};
    for (int tile = 0; tile < num_tiles; ++tile) {
      stages.wait_until_full();
      lane.template add_stage<tiles>(stages.address(), sums);
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
template <typename Shape>
__device__ void skip_item(const Strips& weights, Stages<Shape>& stages) {
  for (int tile = 0; tile < weights.num_tiles; ++tile) {
    stages.wait_until_full();
    stages.tell_empty();
    stages.advance();
  }
}

// Where a strip is cut: a matrix is shared by so many CTAs (strips.h), or its strips are whole.
struct NoCuts {};
__device__ inline int cut_in(const Strips& weights, int strip, unsigned cuts) {
  return cut_of(weights, strip, cuts);
}
__device__ inline int cut_in(const Strips& weights, int, NoCuts) { return weights.num_segments; }

// The warps that multiply, each by itself.
template <typename Shape, typename Items, typename Cuts, typename Take>
__device__ void multiply_by_warps(const Strips& weights, const Items& items, Cuts cuts, Stages<Shape> stages,
                                  const Take& take) {
  const int warp = static_cast<int>(threadIdx.x) / 32, first_index = static_cast<int>(blockIdx.x);
  const typename Shape::Lane lane;
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
    const int cut = cut_in(weights, strip, cuts);
    for (int first = 0; first < weights.num_segments;) {
      const int last = first < cut ? cut : weights.num_segments;
      PromptSums totals{};
      if (columns > 48)
        add_segments<Shape, 8>(weights, first, last, lane, stages, totals);
      else if (columns > 32)
        add_segments<Shape, 6>(weights, first, last, lane, stages, totals);
      else if (columns > 16)
        add_segments<Shape, 4>(weights, first, last, lane, stages, totals);
      else
        add_segments<Shape, 2>(weights, first, last, lane, stages, totals);
      take(item, strip, first > 0, last - first == weights.num_segments, totals);
      first = last;
    }
  }
}

// Multiplies all items of this CTA, in the first bytes of its dynamic shared memory. take(item, strip, part, is_whole, sums): `sums` are
// those of one strip.
template <typename Shape, typename Items, typename Cuts, typename Take>
__device__ void multiply_items(const Strips& weights, const typename Shape::Rows& activations,
                               const Items& items, Cuts cuts, const Take& take) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Stages<Shape> stages(memory);
  if (static_cast<int>(threadIdx.x) / 32 >= Shape::kWarps) {
    Shape::prepare_copying();
    copy_items<Shape>(weights, activations, items, stages);
  } else if constexpr (Shape::kIsWgmma) {
    Shape::multiply(weights, items, cuts, stages, take);
  } else {
    multiply_by_warps<Shape>(weights, items, cuts, stages, take);
  }
}

// The first of the item's columns that the lane has sums of.
template <typename Shape>
__device__ int first_column_of_lane() {
  return static_cast<int>(threadIdx.x) / 32 / Shape::kRowWarps * Shape::kWarpColumns +
         static_cast<int>(threadIdx.x) % 4 * 2;
}

// Calls visit(i, upper, lower) for each of the item's columns that the lane has sums of: column first_column_of_lane() + i. `upper` and
// `lower` are the sums of rows g and g + 8.
template <typename Shape, int tiles, typename Visit>
__device__ void for_each_column(const PromptItem& item, const float (&sums)[tiles][4], const Visit& visit) {
  const int count = item.columns - first_column_of_lane<Shape>();
#pragma unroll
  for (int n = 0; n < tiles; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      if (8 * n + c < count) visit(8 * n + c, sums[n][c], sums[n][c + 2]);
}

}  // namespace nibble::cuda
