// Matrix products of many tokens. Twelve warps of a CTA multiply rows of the weights with columns (tokens,
// or pairs of a token and an expert). A warp takes one strip and up to 64 columns. A shape (template
// parameter) defines how warps divide rows and columns, what a stage holds, and which instruction
// multiplies. Shapes are in bf16_columns.cuh, block_columns.cuh, and image_columns.cuh, which divides the
// work differently for wgmma.
//
// The contraction passes through 3 to 8 stages in at most 98 KB of shared memory. A stage holds one tile of
// 64 columns of the weights and of the activations. Four more warps fill stages with cp.async, which every
// supported GPU has. A stage's barrier `full` signals that its copies have arrived, `empty` that all twelve
// warps have read it. Warps do not wait for each other: while one stores its sums, others use the tensor
// cores.
//
// CTAs are persistent: each takes one item (rows and columns of a product) after another, and copies the next
// item's first stages while it multiplies the current item's last stages. Sums are added segment by segment
// and divided into parts as in stream.cuh, so a shape that multiplies by the instruction of stream.cuh gives
// the same bits.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/stages.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"

namespace nibble::cuda {

// The warps of a CTA that multiplies many tokens. All shapes for mma.sync derive from PromptWarps.
struct PromptWarps {
  static constexpr int kWarps{12}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)}, kCtas{1};
  static constexpr int kWarpTiles{8};  // tiles of 8 columns (n of mma.sync) per warp
  static constexpr int kWarpColumns{8 * kWarpTiles};
  static constexpr int kCopyLanes{32 * kCopyWarps};  // number of arrivals that make a stage full
  static constexpr bool kTakesImage{false};
};

// Returns the number of warps that divide the columns of an item with bfloat16 activations. E4M3 and BF16
// weights have more bytes than MXFP4, so their items have fewer rows and more columns.
constexpr int prompt_column_warps(Layout layout) { return layout == Layout::kMxfp4 ? 1 : 2; }
constexpr int prompt_row_warps(Layout layout) { return PromptWarps::kWarps / prompt_column_warps(layout); }

// A shape derives from PromptWarps and also defines:
//  kLayout       layout of the weights
//  kColumnWarps, kRowWarps, kStrips, kColumns: how the warps divide an item
//  kRowBytes, kScaleBytes: bytes of one row of activations (a column of the product) in a tile, and of the
//                row's scales in a tile (0 or 4)
//  kStages, kStageBytes, kBytes: a stage holds weights, activations and their scales; kBytes is the CTA's
//                dynamic shared memory
//  Rows          activations in global memory. row(i): address of a row. has_piece(p): false if the row ends
//                before 16-byte piece p. scales_of(i): scales of a row, if kScaleBytes is 4
//  Lane          class for one lane: add_stage<tiles>(stage, sums) adds the lane's products of a stage

// A warp's sums: element [n][i] in lane 4 g + t is the sum of row g + 8 (i / 2) and column 8 n + 2 t + i % 2.
using PromptSums = float[PromptWarps::kWarpTiles][4];

// One item of a CTA's work: rows of matrix number `matrix` from first_strip on, and `columns` tokens or
// pairs.
struct PromptItem {
  int matrix, first_strip, first_column, columns;
  // If activations are an image (layout/activations.h): the row of the image that holds the activations of
  // the item's first column.
  int image_row{0};
};
struct SegmentItem : PromptItem {  // an item that covers only one segment of each strip
  int segment;
};

// `cuts`: number of CTAs among which the kernels for few tokens divide this matrix. Where two of those CTAs
// divide a strip (cut_of()), the strip is summed in two parts here too, so that the results have equal bits.
// 0: no strip is divided.
template <typename Shape>
struct ProductInput {
  const Strips& weights;
  typename Shape::Rows activations;
  unsigned cuts{0};
};

// Returns the number of blocks of rows, one per item, into which a matrix is divided.
template <typename Shape>
constexpr int row_blocks(const Strips& weights) {
  return (weights.num_strips + Shape::kStrips - 1) / Shape::kStrips;
}

// Returns a launch with one CTA per item, up to the number of CTAs that are resident at once.
template <typename Shape>
LaunchShape shape_for_items(const Target& target, int num_items) {
  return {dim3(static_cast<unsigned>(std::min(num_items, Shape::kCtas * target.num_multiprocessors))),
          Shape::kThreads, Shape::kBytes};
}

// Fills the stages for all items of this CTA. Only the copy warps call it. `Items` has count(), at(index),
// and row(item, column), which returns the row of `activations` for a column. A lane copies to the same
// offsets in every stage.
template <typename Shape, typename Items>
__device__ void copy_items(const Strips& weights, const typename Shape::Rows& activations, const Items& items,
                           Stages<Shape> stages) {
  constexpr int kLanes{32 * Shape::kCopyWarps};
  constexpr int kPieces{tile_bytes(Shape::kLayout) / 16};  // 16-byte pieces of a strip's tile
  constexpr int kWeightCopies{(Shape::kStrips * kPieces + kLanes - 1) / kLanes};
  constexpr int kRowPieces{Shape::kRowBytes / 16}, kRowsAtOnce{kLanes / kRowPieces},
      kRowCopies{Shape::kColumns / kRowsAtOnce};
  const int lane = static_cast<int>(threadIdx.x) - 32 * Shape::kWarps;
  const int row = lane / kRowPieces, piece = lane % kRowPieces;
  // If a row has 8 pieces, the halves of each odd row are swapped. Lanes that read an even and an odd row at
  // once then access different banks.
  constexpr int kSwap{kRowPieces == 8 ? 4 : 0};
  const int row_place = Shape::kWeightBytes + row * Shape::kRowBytes + (piece ^ (row % 2 * kSwap)) * 16;
  constexpr int kScalePlace{Shape::kWeightBytes + Shape::kColumns * Shape::kRowBytes};
  static_assert(Shape::kScaleBytes == 0 || Shape::kColumns <= kLanes);
  const int num_items = items.count();
  for (int index = static_cast<int>(blockIdx.x); index < num_items; index += static_cast<int>(gridDim.x)) {
    const PromptItem item = items.at(index);
    const uint8_t* matrix = weights.data + item.matrix * weights.matrix_bytes() +
                            size_t{1} * item.first_strip * weights.strip_bytes;
    const int num_pieces = min(Shape::kStrips, weights.num_strips - item.first_strip) * kPieces;
    const uint8_t* rows[kRowCopies];
#pragma unroll
    for (int n = 0; n < kRowCopies; ++n)
      if (const int column = n * kRowsAtOnce + row; column < item.columns)
        rows[n] = activations.row(items.row(item, column)) + 16 * piece;
    const uint32_t* scales = nullptr;
    if constexpr (Shape::kScaleBytes > 0)
      if (lane < item.columns) scales = activations.scales_of(items.row(item, lane));
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
      matrix += tile_bytes(Shape::kLayout);
      const bool is_there = activations.has_piece(tile * kRowPieces + piece);
#pragma unroll
      for (int n = 0; n < kRowCopies; ++n)
        if (n * kRowsAtOnce + row < item.columns)
          copy_16(stage + row_place + n * kRowsAtOnce * Shape::kRowBytes,
                  is_there ? rows[n] + tile * Shape::kRowBytes : activations.row(0), is_there ? 16 : 0);
      if constexpr (Shape::kScaleBytes > 0)
        if (lane < item.columns) copy_4(stage + kScalePlace + lane * 4, scales + tile);
      stages.tell_when_full();
      stages.advance();
    }
  }
}

struct SegmentRange {
  int first, last;
};
// Sums each of the segments [first, last) of the warp's strip from zero, and adds these sums up in `totals`,
// in order.
template <typename Shape, int tiles>
__device__ void add_segments(const Strips& weights, SegmentRange segments, const typename Shape::Lane& lane,
                             Stages<Shape>& stages, PromptSums& totals) {
  for (int segment = segments.first; segment < segments.last; ++segment) {
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
      for (int i = 0; i < 4; ++i)
        totals[n][i] = segment == segments.first ? sums[n][i] : totals[n][i] + sums[n][i];
  }
}

// Releases the stages of an item in which this warp has no strip or no columns.
template <typename Shape>
__device__ void skip_item(const Strips& weights, Stages<Shape>& stages) {
  for (int tile = 0; tile < weights.num_tiles; ++tile) {
    stages.wait_until_full();
    stages.tell_empty();
    stages.advance();
  }
}

// Multiplies all items of this CTA by mma.sync. The warps work independently.
template <typename Shape, typename Items, typename Begin>
__device__ void multiply_by_warps(const ProductInput<Shape>& input, const Items& items, Stages<Shape>& stages,
                                  const Begin& begin) {
  const Strips& weights = input.weights;
  const int warp = static_cast<int>(threadIdx.x) / 32, first_index = static_cast<int>(blockIdx.x);
  if (warp >= Shape::kWarps) {
    copy_items<Shape>(weights, input.activations, items, stages);
    return;
  }
  const typename Shape::Lane lane;
  const int num_items = items.count();
  if (first_index >= num_items) return;  // a rank that holds none of the chosen experts has no items
  auto next = items.at(first_index);
  for (int index = first_index; index < num_items; index += static_cast<int>(gridDim.x)) {
    const auto item = next;
    // The next item is loaded before the products of the current item, which hide the latency.
    next = items.at(min(index + static_cast<int>(gridDim.x), num_items - 1));
    const int strip = item.first_strip + warp % Shape::kRowWarps;
    const int columns = item.columns - warp / Shape::kRowWarps * Shape::kWarpColumns;
    if (strip >= weights.num_strips || columns <= 0) {
      skip_item(weights, stages);
      continue;
    }
    const auto take = begin(item, strip);
    const int cut = input.cuts ? cut_of(weights, strip, input.cuts) : weights.num_segments;
    for (int first = 0; first < weights.num_segments;) {
      const int last = first < cut ? cut : weights.num_segments;
      PromptSums totals{};
      if (columns > 48)
        add_segments<Shape, 8>(weights, {first, last}, lane, stages, totals);
      else if (columns > 32)
        add_segments<Shape, 6>(weights, {first, last}, lane, stages, totals);
      else if (columns > 16)
        add_segments<Shape, 4>(weights, {first, last}, lane, stages, totals);
      else
        add_segments<Shape, 2>(weights, {first, last}, lane, stages, totals);
      take(first > 0, last - first == weights.num_segments, totals);
      first = last;
    }
  }
}

// Multiplies all items of this CTA. An item is a block of the product: some strips of the weights (16 rows
// each) times some columns (tokens or pairs). The stages are at the start of the CTA's dynamic shared memory.
// With mma.sync, all warps first wait for the previous kernel, which writes the activations. With wgmma
// (kTakesImage), warps read items before that wait, and the warp that copies weights does not wait at all.
//
// For each strip of an item, a warp
//   1. calls begin(item, strip), which may prefetch data to add to the sums, such as a bias, and returns a
//      function `take`;
//   2. multiplies the strip with the columns;
//   3. calls take(part, is_whole, sums). If the strip is cut (ProductInput::cuts), its sums come in two
//      calls, as parts 0 and 1; otherwise in one call, with part = 0 and is_whole = true. If the item is a
//      SegmentItem, the warp calls take(sums) instead.
template <typename Shape, typename Items, typename Begin>
__device__ void multiply_items(const Timestamps& timestamps, const ProductInput<Shape>& input,
                               const Items& items, const Begin& begin) {
  NIBBLE_DYNAMIC_SHARED(__align__(1024) uint8_t, memory);
  Stages<Shape> stages(memory);
  if constexpr (Shape::kTakesImage) {
    Shape::multiply_items(timestamps, input, items, stages, begin);
  } else {
    wait_for_predecessor(timestamps);
    let_successor_start();
    multiply_by_warps<Shape>(input, items, stages, begin);
  }
}

// Returns the first of the lane's columns in the item.
template <typename Shape>
__device__ int first_column_of_lane() {
  return static_cast<int>(threadIdx.x) / 32 / Shape::kRowWarps * Shape::kWarpColumns +
         static_cast<int>(threadIdx.x) % 4 * 2;
}

// Calls visit(i, sum of row g, sum of row g + 8), with g = lane / 4, for each column first_column_of_lane() +
// i of the lane.
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
