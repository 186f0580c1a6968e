// Matrix products of many tokens (pipeline.cuh) on Hopper, by wgmma or, if columns are few, by mma.sync,
// which gives the same bits. Activations are bfloat16 in swizzled tiles, called an image (activations.h).
// Each of one to three warpgroups multiplies four strips (64 rows) with the item's columns. Two more warps
// fill the stages by bulk copies (cp.async.bulk): one warp copies weights, one copies activations.
//
// The warp that copies weights does not wait for the previous kernel, which writes the activations: it fills
// the first stages while that kernel ends. So it also reads the items before that kernel has ended
// (group_items.cuh explains why the items are complete by then). This warp stops when all stages are full,
// because the warps that empty the stages do wait for the previous kernel.
//
// A stage of MXFP4 weights is a whole segment (five tiles). Such a stage is multiplied in an unrolled loop
// with two sets of A registers: while wgmma reads one set (half a tile), the next half tile is unpacked into
// the other set. BF16 and E4M3 weights have about 4 and 2 times the bytes of MXFP4, so a stage holds only one
// tile of them.
//
// With three warpgroups per CTA, all three read the same copy of the activations. With one warpgroup per CTA,
// an item has a third of the rows, so a small batch has three times the number of items, which keeps memory
// busy.
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
  int num_rows;

  __device__ ImageRows(const __nv_bfloat16* image, int image_rows)
      : data(reinterpret_cast<const uint8_t*>(image)), num_rows(image_rows) {}
};

// Calls f(item) for each item of this CTA, and begin() once the first item is known. To read an item takes
// as long as to multiply a stage, so the next item is read while f() multiplies the current one.
template <typename Items, typename Begin, typename F>
__device__ __forceinline__ void for_each_item(const Items& items, const Begin& begin, const F& f) {
  const int count = items.count(), step = static_cast<int>(gridDim.x);
  int index = static_cast<int>(blockIdx.x);
  if (index >= count) return begin();  // on a rank that holds none of the chosen experts, CTAs have no items
  auto next = items.at(index);
  begin();
  for (; index < count; index += step) {
    const auto item = next;
    next = items.at(min(index + step, count - 1));
    f(item);
  }
}

// `columns`: largest number of columns of an item. `ctas`: CTAs per SM; with two, one multiplies while the
// other waits for memory.
template <Layout layout, int columns, int warpgroups, int ctas = 1>
struct ImageShape {
  static constexpr bool kTakesImage{true};
  static constexpr Layout kLayout{layout};
  static constexpr int kWarps{4 * warpgroups}, kCtas{ctas}, kCopyLanes{2};
  static constexpr int kRowWarps{kWarps}, kStrips{kWarps}, kColumns{columns}, kWarpColumns{columns};
  // A stage holds tiles of activations, which wgmma requires at multiples of 1,024 bytes, then tiles of the
  // weights' strips.
  static constexpr int kTiles{layout == Layout::kMxfp4 ? kMaxSegmentTiles : 1};
  static constexpr int kColumnBytes{kColumns * kCellBytes}, kStripBytes{kTiles * tile_bytes(layout)};
  static constexpr int kWeightPlace{kTiles * kColumnBytes},
      kStageBytes{(kWeightPlace + kStrips * kStripBytes + 1023) / 1024 * 1024};
  static constexpr int kStages{(static_cast<int>(usable_bytes(Budget::k227)) / kCtas - 1024) /
                               stages_bytes(1, kStageBytes)};  // 1,024: bytes that the driver takes per CTA
  static constexpr int kBytes{stages_bytes(kStages, kStageBytes)};
  static_assert(kStages >= 2 && kColumns % kRowsOfSwizzle == 0 && kStrips <= 32 && kTiles <= 32);
  using Rows = ImageRows;
  // multiply_item() is compiled for kStep, 2 kStep, 3 kStep ... tiles of 8 columns. kStep keeps the number of
  // these variants at 8 or fewer: with more, the compiler makes each wgmma wait for the previous one. The
  // experts' items (MXFP4, three warpgroups) can have any number of columns, so they get more variants than
  // the dense layers' items, most of which are full.
  static constexpr int kStep{warpgroups < 3 || layout != Layout::kMxfp4 ? 4 : columns > 64 ? 2 : 1};

  // With few columns mma.sync is faster, because wgmma makes warps wait for each other
  // (docs/decisions/0015).
  static constexpr bool kIsByMma{layout == Layout::kMxfp4 && columns <= kBatchColumns};
  static_assert(!kIsByMma || columns == kRowsOfSwizzle);

  // Whether the two copying warps give registers to the multiplying warps. Only a whole warpgroup can do so:
  // two idle warps complete the warpgroup of the copying warps. In the multiplying warps, sums of 64 rows x
  // 128 columns take 64 registers per thread, and their totals another 64.
  static constexpr bool kSharesRegisters{warpgroups > 1 && kCtas == 1};
  static constexpr int kThreads{32 * (kWarps + (kSharesRegisters ? 4 : 2))};
  static constexpr int kCopyRegisters{warpgroups > 2 ? 32 : 40},
      kProductRegisters{warpgroups > 2 ? 160 : 232};
  static_assert(!kSharesRegisters || 32 * (kWarps * kProductRegisters + 4 * kCopyRegisters) <= 65536);

  // Multiplies all items of this CTA. If wgmma is not compiled, the body is empty, and kernel_table.cpp has
  // no row that launches such kernels.
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
  // Calls multiply_item() for the smallest compiled number of tiles, from `tiles` on, that holds the item's
  // columns.
  template <int tiles, typename Item, typename Begin>
  static __device__ __forceinline__ void multiply_item_of(const Strips& weights, const Item& item,
                                                          unsigned cuts, Stages<ImageShape>& stages,
                                                          const Begin& begin) {
    if constexpr (8 * tiles < kColumns)
      if (item.columns > 8 * tiles)
        return multiply_item_of<tiles + kStep>(weights, item, cuts, stages, begin);
    multiply_item<tiles>(weights, item, cuts, stages, begin);
  }

  struct TileRange {
    int first, end;  // tiles [first, end) of each strip
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

  // Each lane copies one strip's part of a stage. Only the first lane arrives at the barrier, and announces
  // the bytes of all lanes: with an arrival per lane, a dense product of 16 tokens took 8 to 15 % longer.
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
  template <typename Items>
  static __device__ void copy_activations(const Timestamps& timestamps, const Strips& weights,
                                          const ImageRows& activations, const Items& items,
                                          Stages<ImageShape> stages) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t place = lane * kColumnBytes;
    for_each_item(
        items, [&] { wait_for_predecessor(timestamps); },
        [&](const auto& item) {
          // Copies the image rows of the item's columns only, without the rows that pad a group to a multiple
          // of 8.
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
  // For each stage of an item: waits until the stage is empty, then calls f(number of tiles in the stage).
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
  struct StagePiece {
    uint32_t place;  // byte offset in the stage at which the bytes are stored
    const uint8_t* from;
    int num_bytes;
  };
  // Starts one warp's copies to a stage, of all_bytes in total. Each lane with has_piece copies one piece.
  static __device__ __forceinline__ void copy_part(const Stages<ImageShape>& stages, bool has_piece,
                                                   StagePiece piece, int all_bytes, uint64_t policy) {
    if (threadIdx.x % 32 == 0) arrive_and_expect(stages.full(), all_bytes);
    __syncwarp();
    if (has_piece)
      bulk_copy(stages.address() + piece.place, piece.from, piece.num_bytes, stages.full(), policy);
  }

  // Issues the wgmma instructions of one tile: of two groups of 32 columns, each with its own A registers.
  // Calls between() once all wgmma of the previous tile have completed.
  template <bool first, int tiles, typename Between>
  static __device__ __forceinline__ void add_tile(uint32_t strip, uint32_t cells, uint32_t (&a)[2][2][4],
                                                  float (&sums)[tiles][4], const Between& between) {
    const TileWords<layout> words(strip, static_cast<int>(threadIdx.x) % 32);
    const uint32_t b = describe_columns(cells);
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      if (!first) wait_for_products<1>();  // wgmma of the previous tile may still read a[group]
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

  // Computes the sums of a segment for the warp's strip by mma.sync, from one MXFP4 stage of up to 8
  // columns.
  static __device__ __forceinline__ void add_few(int num_tiles, uint32_t strip, Stages<ImageShape>& stages,
                                                 float (&sums)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % kRowsOfSwizzle;
    // Byte offset in a tile of the 16-byte piece whose address the lane passes to load_matrices(), for
    // elements 0 to 31 of the rows. The piece for elements 32 to 63 is at this offset XOR 64, because pieces
    // are swizzled.
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
    // For a whole segment the loop has no branch, so the next tile's loads overlap with this tile's
    // mma instructions.
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
  // Computes the sums of a segment by wgmma, from one MXFP4 stage.
  template <int tiles>
  static __device__ __forceinline__ void add_stage(int num_tiles, uint32_t strip, Stages<ImageShape>& stages,
                                                   float (&sums)[tiles][4]) {
    const auto nothing = [] {};
    uint32_t a[2][2][4];
    stages.wait_until_full();
    // The shuffle makes the address warp-uniform: descriptors are then computed in uniform registers.
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
  // Computes the sums of a segment by wgmma, from stages of one tile each. Releases a stage once all its
  // wgmma have completed; by then the first wgmma of the next stage are in flight.
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
    // wgmma needs all warps of a warpgroup, so a warp without a strip multiplies too, and its sums are not
    // used.
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
    const bool has_strip = strip < weights.num_strips;
    const auto take = begin(item, has_strip ? strip : 0);
    float sums[tiles][4];
    multiply_segment<tiles>(weights, item.segment, warp, stages, sums);
    if (has_strip) take(sums);
  }
#endif
};

}  // namespace nibble::cuda
