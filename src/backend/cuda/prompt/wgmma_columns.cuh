// Products of many tokens (pipeline.cuh) by wgmma, on Hopper, with activations in bfloat16 whose columns are in the order of the lanes
// (lane_order). One or three warpgroups multiply, each four strips, 64 rows, with up to 64 or 128 columns; one more copies. Sums and their
// order are those of mma.sync, to the bit, so all that surrounds the products is the same.
//
// A warpgroup unpacks a tile of its strips into registers while the products of the tile before are under way, so there are two sets of A.
// A stage is left when its products have ended. An item with fewer columns takes a smaller product.
//
// Three warpgroups share the columns that are copied. A batch has few of them, and few items: one warpgroup then makes three times as many,
// so that all of memory is read from.
#pragma once

#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/prompt/bf16_columns.cuh"
#include "backend/cuda/prompt/pipeline.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace nibble::cuda {

template <Layout layout, int columns, int warpgroups>
struct WgmmaShape {
  static constexpr bool kIsWgmma{true};
  static constexpr Layout kLayout{layout};
  static constexpr int kWarps{4 * warpgroups}, kCopyWarps{4}, kThreads{32 * (kWarps + kCopyWarps)};
  static constexpr int kColumnWarps{1}, kRowWarps{kWarps}, kStrips{kWarps};
  static constexpr int kColumns{columns}, kWarpColumns{kColumns}, kWarpTiles{kColumns / 8};
  static constexpr int kRowBytes{2 * kTileCols}, kScaleBytes{0};
  // wgmma asks for columns at a multiple of 1,024 bytes.
  static constexpr int kColumnPlace{0}, kWeightPlace{kColumns * kRowBytes},
      kStageBytes{(kWeightPlace + kStrips * tile_bytes(layout) + 1023) / 1024 * 1024};
  static constexpr int kStages{static_cast<int>(usable_bytes(Budget::k227)) / stages_bytes(1, kStageBytes)};
  static constexpr int kBytes{stages_bytes(kStages, kStageBytes)};
  using Rows = Bf16Rows;

  static constexpr int piece_place(int column, int piece) {
    return column * kRowBytes + (piece ^ (column % 8)) * 16;
  }

  // 65,536 registers are 128 for each of 512 threads. Those that copy need few, and sums of 64 rows and 128 columns take 128 twice: a
  // segment's, and the total. Of 256 threads each has 255 anyway.
  static constexpr bool kSharesRegisters{warpgroups > 1};
  static constexpr int kCopyRegisters{32}, kProductRegisters{160};
  static_assert(!kSharesRegisters ||
                32 * (kWarps * kProductRegisters + kCopyWarps * kCopyRegisters) <= 65536);

  // On other families there is nothing behind these, and no row of the kernel table launches them.
  static __device__ void prepare_copying() {
#if NIBBLE_WGMMA
    if constexpr (kSharesRegisters) give_registers<kCopyRegisters>();
#endif
  }

  template <typename Items, typename Cuts, typename Take>
  static __device__ void multiply(const Strips& weights, const Items& items, Cuts cuts,
                                  Stages<WgmmaShape> stages, const Take& take) {
#if NIBBLE_WGMMA
    if constexpr (kSharesRegisters) take_registers<kProductRegisters>();
    Stages<WgmmaShape> read = stages;
    for (int index = static_cast<int>(blockIdx.x); index < items.count();
         index += static_cast<int>(gridDim.x)) {
      const PromptItem item = items.at(index);
      // With more than three sizes ptxas finds too few registers, and lets each product wait for the one before.
      if constexpr (kColumns == 64) {
        if (item.columns <= 16)
          multiply_item<2>(weights, item, cuts, stages, read, take);
        else if (item.columns <= 32)
          multiply_item<4>(weights, item, cuts, stages, read, take);
        else
          multiply_item<8>(weights, item, cuts, stages, read, take);
      } else {
        if (item.columns <= 64)
          multiply_item<8>(weights, item, cuts, stages, read, take);
        else if (item.columns <= 96)
          multiply_item<12>(weights, item, cuts, stages, read, take);
        else
          multiply_item<16>(weights, item, cuts, stages, read, take);
      }
    }
#endif
  }

#if NIBBLE_WGMMA
 private:
  // Adds a segment of the warp's strip to `sums`, which are zero: a sum that had no value would be kept over all items. Products are grouped by 32 columns of the contraction: two sets of A are then 16 registers.
  template <int tiles>
  static __device__ void add_segment(int num_tiles, uint32_t weights, Stages<WgmmaShape>& stages,
                                     Stages<WgmmaShape>& read, float (&sums)[tiles][4]) {
    uint32_t a[2][2][4];
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      stages.wait_until_full();
      const TileWords<layout> words(stages.address() + weights);
      const uint64_t b = describe_columns(stages.address() + kColumnPlace);
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        if (tile > 0) wait_for_products<1>();  // those that last used this set of A
        if (tile > 0 && group == 1) {          // all of the tile before
          read.tell_empty();
          read.advance();
        }
        words.unpack(group, a[group]);
        fence_products();
        wgmma_bf16(sums, a[group][0], b + 4 * group);
        wgmma_bf16(sums, a[group][1], b + 4 * group + 2);
        end_products();
      }
      stages.advance();
    }
    wait_for_products<0>();
    read.tell_empty();
    read.advance();
  }

  template <int tiles, typename Cuts, typename Take>
  static __device__ void multiply_item(const Strips& weights, const PromptItem& item, Cuts cuts,
                                       Stages<WgmmaShape>& stages, Stages<WgmmaShape>& read,
                                       const Take& take) {
    const int warp = static_cast<int>(threadIdx.x) / 32, strip = item.first_strip + warp;
    // A warp without a strip multiplies what the stage happens to hold: the warpgroup's products need it.
    const bool has_strip = strip < weights.num_strips;
    const int cut = has_strip ? cut_in(weights, strip, cuts) : weights.num_segments;
    constexpr bool kMayBeCut{!std::is_same_v<Cuts, NoCuts>};
    const uint32_t place = kWeightPlace + warp * tile_bytes(layout);
    float totals[tiles][4]{};
#pragma unroll 1
    for (int segment = 0; segment < weights.num_segments; ++segment) {
      float sums[tiles][4]{};
      add_segment<tiles>(min(weights.segment_tiles, weights.num_tiles - segment * weights.segment_tiles),
                         place, stages, read, sums);
      bool is_first = segment == 0;
      if (kMayBeCut && segment == cut) {
        take(item, strip, false, false, totals);
        is_first = true;
      }
#pragma unroll
      for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) totals[n][i] = is_first ? sums[n][i] : totals[n][i] + sums[n][i];
    }
    if (has_strip) take(item, strip, cut < weights.num_segments, cut == weights.num_segments, totals);
  }
#endif
};

}  // namespace nibble::cuda
