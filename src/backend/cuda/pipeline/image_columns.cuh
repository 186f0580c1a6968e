// Products of many tokens (pipeline.cuh) on Hopper, with bfloat16 activations in an image
// (layout/activations.h), by wgmma or, with few columns, by mma.sync. One to three warpgroups multiply, each
// four strips, 64 rows, with the item's columns. Two more warps have the copy engine fill the stages, one
// with weights and one with activations. Sums have the same order and the same bits as by mma.sync.
//
// The warp for weights does not wait for the previous kernel, which writes the activations: while the
// previous kernel ends, the weights of the first stages are loaded. So the items must be known before the
// previous kernel ends (group_items.cuh). The warp cannot run ahead by more than the stages, because the
// warps that empty a stage do wait for the previous kernel.
//
// A stage of MXFP4 is a whole segment, and its loop is unrolled. It uses two sets of A registers: one is
// unpacked while the products of the other run. In BF16 and E4M3, with 4 and 2 times the bytes, a stage is
// one tile.
//
// An item with few columns uses a smaller product. Three warpgroups share the columns that are copied. A
// batch has few columns, and few items: with one warpgroup there are three times the items, which keeps all
// of the memory busy. Experts of a batch keep the stages but not wgmma: each of their warps multiplies by
// mma.sync.
#pragma once

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/pipeline/pipeline.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace nibble::cuda {

struct ImageRows {
  const uint8_t* data;
  int num_rows;  // of the image

  __device__ ImageRows(const __nv_bfloat16* image, int image_rows)
      : data(reinterpret_cast<const uint8_t*>(image)), num_rows(image_rows) {}
};

// Calls f(item) for each item of this CTA, and begin() when the first item is known. Reads the next item long
// before it is needed, because reading it takes as long as a stage.
template <typename Items, typename Begin, typename F>
__device__ __forceinline__ void for_each_item(const Items& items, const Begin& begin, const F& f) {
  const int count = items.count(), step = static_cast<int>(gridDim.x);
  int index = static_cast<int>(blockIdx.x);
  if (index >= count) return begin();  // no items: other ranks may hold all chosen experts
  auto next = items.at(index);
  begin();
  for (; index < count; index += step) {
    const auto item = next;
    next = items.at(min(index + step, count - 1));
    f(item);
  }
}

// `ctas`: CTAs per multiprocessor; one CTA multiplies while another waits for memory.
template <Layout layout, int columns, int warpgroups, int ctas = 1>
struct ImageShape {
  static constexpr bool kTakesImage{true};
  static constexpr Layout kLayout{layout};
  static constexpr int kWarps{4 * warpgroups}, kCtas{ctas}, kCopyLanes{2};
  static constexpr int kRowWarps{kWarps}, kStrips{kWarps}, kColumns{columns}, kWarpColumns{columns};
  // A stage: tiles of columns, which wgmma requires at multiples of 1,024 bytes, then strips.
  static constexpr int kTiles{layout == Layout::kMxfp4 ? kMaxSegmentTiles : 1};
  static constexpr int kColumnBytes{kColumns * kCellBytes}, kStripBytes{kTiles * tile_bytes(layout)};
  static constexpr int kWeightPlace{kTiles * kColumnBytes},
      kStageBytes{(kWeightPlace + kStrips * kStripBytes + 1023) / 1024 * 1024};
  static constexpr int kStages{(static_cast<int>(usable_bytes(Budget::k227)) / kCtas - 1024) /
                               stages_bytes(1, kStageBytes)};  // 1 KB of each CTA is the driver's
  static constexpr int kBytes{stages_bytes(kStages, kStageBytes)};
  static_assert(kStages >= 2 && kColumns % kRowsOfSwizzle == 0 && kStrips <= 32 && kTiles <= 32);
  using Rows = ImageRows;
  // The sizes of products differ by kStep tiles of 8 columns. A group of pairs can have any number of
  // columns, while most items of tokens are full. With more than 8 sizes the compiler no longer keeps all of
  // them in one function, and makes products wait for each other.
  static constexpr int kStep{warpgroups < 3 || layout != Layout::kMxfp4 ? 4 : columns > 64 ? 2 : 1};

  // With few columns each warp multiplies on its own, by mma.sync: the sums are the same, and the experts of
  // a batch had to wait for wgmma (docs/decisions/0015).
  static constexpr bool kIsByMma{layout == Layout::kMxfp4 && columns <= kBatchColumns};
  static_assert(!kIsByMma || columns == kRowsOfSwizzle);

  // A CTA's threads share 65,536 registers. A segment's sums for 64 rows and 128 columns take 64 registers of
  // a thread, and the totals another 64. So the warps that do not multiply, padded to a whole warpgroup, give
  // up most of their registers. CTAs with fewer threads have enough registers.
  static constexpr bool kSharesRegisters{warpgroups > 1 && kCtas == 1};
  static constexpr int kThreads{32 * (kWarps + (kSharesRegisters ? 4 : 2))};
  static constexpr int kCopyRegisters{warpgroups > 2 ? 32 : 40},
      kProductRegisters{warpgroups > 2 ? 160 : 232};
  static_assert(!kSharesRegisters || 32 * (kWarps * kProductRegisters + 4 * kCopyRegisters) <= 65536);

  // Empty for GPU families without wgmma, where no row of the kernel table (kernel_table.cpp) launches it.
  template <typename Items, typename Begin>
  static __device__ void multiply_items(const Timestamps& timestamps, const ProductInput<ImageShape>& input,
                                        const Items& items, Stages<ImageShape>& stages, const Begin& begin) {
#if NIBBLE_WGMMA
    const Strips& weights = input.weights;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp >= kWarps) {
      if constexpr (kSharesRegisters) give_registers<kCopyRegisters>();
      if (warp == kWarps) copy_weights(weights, items, stages);
      if (warp == kWarps + 1) copy_activations(timestamps, weights, input.activations, items, stages);
      return;
    }
    if constexpr (kSharesRegisters) take_registers<kProductRegisters>();
    const auto wait = [&] {
      wait_for_predecessor(timestamps);
      let_successor_start();
    };
    for_each_item(items, wait, [&](const auto& item) {
      multiply_item_of<kStep>(weights, item, input.cuts, stages, begin);
    });
#endif
  }

#if NIBBLE_WGMMA
 private:
  // Uses the smallest product that holds the item's columns, from `tiles` tiles of 8 columns on.
  template <int tiles, typename Item, typename Begin>
  static __device__ __forceinline__ void multiply_item_of(const Strips& weights, const Item& item,
                                                          unsigned cuts, Stages<ImageShape>& stages,
                                                          const Begin& begin) {
    if constexpr (8 * tiles < kColumns)
      if (item.columns > 8 * tiles)
        return multiply_item_of<tiles + kStep>(weights, item, cuts, stages, begin);
    multiply_item<tiles>(weights, item, cuts, stages, begin);
  }

  // The tiles of an item, from the first to one past the last.
  struct TileRange {
    int first, end;
  };
  static __device__ TileRange tiles_of(const Strips& weights, const PromptItem&) {
    return {0, weights.num_tiles};
  }
  static __device__ TileRange tiles_of(const Strips& weights, const SegmentItem& item) {
    const int first = item.segment * weights.segment_tiles;
    return {first, min(first + weights.segment_tiles, weights.num_tiles)};
  }

  static __device__ int tiles_of_stage(const Strips& weights, int first_tile) {
    return kTiles == 1 ? 1 : min(weights.segment_tiles, weights.num_tiles - first_tile);
  }

  // Each lane copies one strip's part of a stage. The first lane announces the bytes of all lanes to the
  // barrier: with 32 arrivals, a dense product of 16 tokens took 8 to 15 % longer.
  template <typename Items>
  static __device__ void copy_weights(const Strips& weights, const Items& items, Stages<ImageShape> stages) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t place = kWeightPlace + lane * kStripBytes;
    const uint64_t policy = Items::kAreReadOnce ? kEvictFirst : kEvictNormal;
    for_each_item(
        items, [] {},
        [&](const auto& item) {
          const int num_strips = min(kStrips, weights.num_strips - item.first_strip);
          const uint8_t* from = weights.data + item.matrix * weights.matrix_bytes() +
                                size_t{1} * (item.first_strip + lane) * weights.strip_bytes +
                                tiles_of(weights, item).first * tile_bytes(layout);
          for_each_stage(weights, item, stages, [&](int num_tiles) {
            const int num_bytes = num_tiles * tile_bytes(layout);
            copy_part(stages, lane < num_strips, {place, from, num_bytes}, num_strips * num_bytes, policy);
            from += num_bytes;
          });
        });
  }
  // Each lane copies one tile of a stage's columns.
  template <typename Items>
  static __device__ void copy_activations(const Timestamps& timestamps, const Strips& weights,
                                          const ImageRows& activations, const Items& items,
                                          Stages<ImageShape> stages) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t place = lane * kColumnBytes;
    for_each_item(
        items, [&] { wait_for_predecessor(timestamps); },
        [&](const auto& item) {
          // Columns past the item's are not copied: they are multiplied with whatever the stage holds, and
          // their sums are not used. Otherwise a batch would read six rows of padding for two of pairs.
          const int num_bytes = item.columns * kCellBytes;
          const uint8_t* from =
              activations.data +
              cell_of(item.image_row, tiles_of(weights, item).first + lane, activations.num_rows);
          for_each_stage(weights, item, stages, [&](int num_tiles) {
            copy_part(stages, lane < num_tiles, {place, from, num_bytes}, num_tiles * num_bytes,
                      kEvictNormal);
            from += cell_of(0, num_tiles, activations.num_rows);
          });
        });
  }
  // Calls f(number of tiles) for each stage of an item, once it is empty.
  template <typename Item, typename F>
  static __device__ __forceinline__ void for_each_stage(const Strips& weights, const Item& item,
                                                        Stages<ImageShape>& stages, const F& f) {
    const TileRange tiles = tiles_of(weights, item);
    for (int tile = tiles.first; tile < tiles.end;) {
      const int num_tiles = tiles_of_stage(weights, tile);
      stages.wait_until_empty();
      f(num_tiles);
      tile += num_tiles;
      stages.advance();
    }
  }
  // A lane's piece of a stage.
  struct StagePiece {
    uint32_t place;  // in the stage
    const uint8_t* from;
    int num_bytes;
  };
  // Copies a warp's part of a stage, `all_bytes`: one piece for each lane that has one.
  static __device__ __forceinline__ void copy_part(const Stages<ImageShape>& stages, bool has_piece,
                                                   StagePiece piece, int all_bytes, uint64_t policy) {
    if (threadIdx.x % 32 == 0) arrive_and_expect(stages.full(), all_bytes);
    __syncwarp();
    if (has_piece)
      bulk_copy(stages.address() + piece.place, piece.from, piece.num_bytes, stages.full(), policy);
  }

  // Adds the products of a tile, in two groups of 32 columns of the contraction, each with its own set of A
  // registers. Calls between() when all products of the previous tile have ended.
  template <bool first, int tiles, typename Between>
  static __device__ __forceinline__ void add_tile(uint32_t strip, uint32_t cells, uint32_t (&a)[2][2][4],
                                                  float (&sums)[tiles][4], const Between& between) {
    const TileWords<layout> words(strip, static_cast<int>(threadIdx.x) % 32);
    const uint32_t b = describe_columns(cells);
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      if (!first) wait_for_products<1>();  // the products that last used this set of registers
      if (group == 1) between();
      words.unpack(group, a[group]);
      fence_products();
      if (first && group == 0)
        wgmma_bf16<false>(sums, a[group][0], b);
      else
        wgmma_bf16<true>(sums, a[group][0], b + 4 * group);
      wgmma_bf16<true>(sums, a[group][1], b + 4 * group + 2);
      end_products();
    }
  }

  // Computes the sums of a segment of the warp's strip by mma.sync, in a stage of MXFP4 with up to 8 columns.
  static __device__ __forceinline__ void add_few(int num_tiles, uint32_t strip, Stages<ImageShape>& stages,
                                                 float (&sums)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % kRowsOfSwizzle;
    // Place of the first group's columns; those of the second group are 64 bytes after or before it.
    const uint32_t of_lane = row * kCellBytes + (lane / 8 ^ row) * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = 0;
    stages.wait_until_full();
    const uint32_t at = stages.address();
    const auto add_tile_of_few = [&](int tile) {
      const TileWords<layout> words(at + strip + tile * tile_bytes(layout), lane);
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        uint32_t a[2][4], b[4];
        words.unpack(group, a);
        load_matrices(b, at + (of_lane ^ group * 64) + tile * kColumnBytes);
        mma_bf16(sums, a[0], b[0], b[1]);
        mma_bf16(sums, a[1], b[2], b[3]);
      }
    };
    // The loop over a whole segment has no branch, so that the next tile's loads overlap with this one's
    // products.
    if (num_tiles == kMaxSegmentTiles) {
#pragma unroll
      for (int tile = 0; tile < kMaxSegmentTiles; ++tile) add_tile_of_few(tile);
    } else {
#pragma unroll 1
      for (int tile = 0; tile < num_tiles; ++tile) add_tile_of_few(tile);
    }
    stages.tell_empty();
    stages.advance();
  }
  // Computes the same sums for more columns, by wgmma.
  template <int tiles>
  static __device__ __forceinline__ void add_stage(int num_tiles, uint32_t strip, Stages<ImageShape>& stages,
                                                   float (&sums)[tiles][4]) {
    const auto nothing = [] {};
    uint32_t a[2][2][4];
    stages.wait_until_full();
    // One address for the warp, in a uniform register, so that the descriptors computed from it are in
    // uniform registers too.
    const uint32_t at = __shfl_sync(~0u, stages.address(), 0);
    add_tile<true>(at + strip, at, a, sums, nothing);
#pragma unroll
    for (int tile = 1; tile < kMaxSegmentTiles; ++tile)
      if (tile < num_tiles)
        add_tile<false>(at + strip + tile * tile_bytes(layout), at + tile * kColumnBytes, a, sums, nothing);
    wait_for_products<0>();
    stages.tell_empty();
    stages.advance();
  }
  // Like add_stage(), if a stage is one tile. Releases a stage when the first products of the next stage are
  // in flight.
  template <int tiles>
  static __device__ __forceinline__ void add_stages(int num_tiles, uint32_t strip, Stages<ImageShape>& stages,
                                                    float (&sums)[tiles][4]) {
    Stages<ImageShape> read = stages;
    const auto leave = [&] {
      read.tell_empty();
      read.advance();
    };
    uint32_t a[2][2][4];
    stages.wait_until_full();
    add_tile<true>(stages.address() + kWeightPlace + strip, stages.address(), a, sums, [] {});
    stages.advance();
#pragma unroll 1
    for (int tile = 1; tile < num_tiles; ++tile) {
      stages.wait_until_full();
      add_tile<false>(stages.address() + kWeightPlace + strip, stages.address(), a, sums, leave);
      stages.advance();
    }
    wait_for_products<0>();
    leave();
  }

  // Computes the sums of a segment of the warp's strip, from zero.
  template <int tiles>
  static __device__ __forceinline__ void multiply_segment(const Strips& weights, int segment, int warp,
                                                          Stages<ImageShape>& stages,
                                                          float (&sums)[tiles][4]) {
    const int num_tiles = min(weights.segment_tiles, weights.num_tiles - segment * weights.segment_tiles);
    if constexpr (kIsByMma)
      add_few(num_tiles, kWeightPlace + warp * kStripBytes, stages, sums[0]);
    else if constexpr (kTiles > 1)
      add_stage<tiles>(num_tiles, kWeightPlace + warp * kStripBytes, stages, sums);
    else
      add_stages<tiles>(num_tiles, warp * kStripBytes, stages, sums);
  }

  template <int tiles, typename Item, typename Begin>
  static __device__ __forceinline__ void multiply_item(const Strips& weights, const Item& item, unsigned cuts,
                                                       Stages<ImageShape>& stages, const Begin& begin) {
    const int warp = static_cast<int>(threadIdx.x) / 32, strip = item.first_strip + warp;
    // A warp without a strip multiplies whatever the stage holds: the warpgroup's products need it.
    const bool has_strip = strip < weights.num_strips;
    const auto take = begin(item, has_strip ? strip : 0);
    const int cut = cuts && has_strip ? cut_of(weights, strip, cuts) : weights.num_segments;
#pragma unroll 1
    for (int first = 0; first < weights.num_segments;) {
      const int last = first < cut ? cut : weights.num_segments;
      float totals[tiles][4];
#pragma unroll
      for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) totals[n][i] = -0.0f;  // -0 + sum has exactly the bits of the sum
#pragma unroll 1
      for (int segment = first; segment < last; ++segment) {
        float sums[tiles][4];
        multiply_segment<tiles>(weights, segment, warp, stages, sums);
#pragma unroll
        for (int n = 0; n < tiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) totals[n][i] += sums[n][i];
      }
      if (has_strip) take(first > 0, last - first == weights.num_segments, totals);
      first = last;
    }
  }
  template <int tiles, typename Begin>
  static __device__ __forceinline__ void multiply_item(const Strips& weights, const SegmentItem& item,
                                                       unsigned, Stages<ImageShape>& stages,
                                                       const Begin& begin) {
    const int warp = static_cast<int>(threadIdx.x) / 32, strip = item.first_strip + warp;
    const bool has_strip = strip < weights.num_strips;  // as above
    const auto take = begin(item, has_strip ? strip : 0);
    float sums[tiles][4];
    multiply_segment<tiles>(weights, item.segment, warp, stages, sums);
    if (has_strip) take(sums);
  }
#endif
};

}  // namespace nibble::cuda
