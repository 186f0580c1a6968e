// Prefill attention by wgmma, for Hopper. Up to one CTA per SM; the tiles (tile.cuh) are divided evenly among
// CTAs (stretch.cuh). Three warpgroups handle a third of a tile's rows each. Four more warps load pages into
// stages in shared memory, as far ahead as there are stages, so that warpgroups do not wait for each other:
// one multiplies while another computes exponentials. Within a warpgroup, a page's exponentials overlap the
// product with the previous page's values.
//
// The bits equal those of attend_rows(). There a lane loads 8 adjacent columns of a key for two products, so
// one product covers 4 columns of each of four pieces of 8. Which columns share a product affects the bits;
// their order does not (docs/decisions/0014). So keys are copied in half pieces, which makes a product's
// columns contiguous. Values keep their order; 8 more columns of ones in their product sum the exponentials.
//
// Work for 8 heads: 4 D FLOP per head, row and position, half in each product. Per page and warpgroup,
// products take 136 clocks, exponentials 128, and issuing instructions about 200 on a scheduler, which three
// warpgroups share.
#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/stretch.cuh"
#include "backend/cuda/pipeline/stages.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace nibble::cuda {
// kBringers: warps that load pages. Four, since setmaxnreg changes the registers of whole warpgroups.
constexpr int kBringers{4}, kThreads{kTileThreads + 32 * kBringers};
constexpr int kBringerRegisters{56}, kProductRegisters{152};
static_assert(kTileThreads * kProductRegisters + 32 * kBringers * kBringerRegisters <= 65536);
constexpr int kPageBytes{kPagePositions * kCellBytes};  // bytes of a page's keys or values in bfloat16

// A stage: a page's keys, then its values. An unnamed namespace would cause warnings in builds without wgmma.
struct PageStages {
  static constexpr int kStages{8}, kStageBytes{2 * kPageBytes}, kWarps{kTileWarps}, kCopyLanes{kBringers};
  // Stages whose copies may be in flight while a loading warp starts the next page.
  static constexpr int kUnderWay{5};
};

namespace {

// Layout of shared memory: stages; a block of ones, 8 further columns for the values of 16 positions; totals.
constexpr int kOnesAt{(stages_bytes(PageStages::kStages, PageStages::kStageBytes) + 1023) / 1024 * 1024},
    kOnesBytes{16 * kCellBytes}, kTotalsAt{kOnesAt + kOnesBytes};
constexpr size_t kTileBytes{kTotalsAt + ChunkTotals::kBytes};

#if NIBBLE_WGMMA

// The pages of a tile that one CTA processes: num_pages from first_page on, counted from the tile's first
// page. first_stage: running number of the first page's stage since the start of the kernel.
struct TilePages {
  const Tile& tile;
  int first_page, num_pages;
  unsigned first_stage;
};

// A warp that loads eight positions of each page. A stage stores a position as a row of 128 bytes, with piece
// p (16 bytes) of row r at place p ^ (r % 8). A lane's addresses therefore differ by whole rows and, in some
// bits, by the place within the row.
template <KvFormat format>
class PageBringer {
  using Codec = KvCodec<format>;
  using Element = typename Codec::Element;
  using Eight = typename Codec::Eight;

 public:
  __device__ PageBringer(const Stages<PageStages>& stages, uint8_t* memory)
      : stages_(stages), memory_(memory) {}

  __device__ void bring(const TilePages& part) {
    const auto stage_of = [&](int n) { return part.first_stage + static_cast<unsigned>(n); };
    if constexpr (format == KvFormat::kBf16) {
      for (int n = 0; n < part.num_pages; ++n) {
        stages_.wait_until_empty(stage_of(n));
        copy(part, n);
        end_copies();
        if (n < PageStages::kUnderWay) continue;
        wait_for_copies<PageStages::kUnderWay>();
        tell_full(stage_of(n - PageStages::kUnderWay));
      }
      wait_for_copies<0>();
      for (int n = max(0, part.num_pages - PageStages::kUnderWay); n < part.num_pages; ++n)
        tell_full(stage_of(n));
    } else {  // FP8 passes through registers, to be converted to bfloat16
      load(part, 0);
      for (int n = 0; n < part.num_pages; ++n) {
        stages_.wait_until_empty(stage_of(n));
        store(part, n);
        tell_full(stage_of(n));
        if (n + 1 < part.num_pages) load(part, n + 1);
      }
    }
  }

 private:
  static constexpr int kPositions{kPagePositions / kBringers};  // positions of a page per warp
  static constexpr int kPieces{kHeadDim / 8};                   // pieces of 8 elements in a key or value
  static constexpr int kAtOnce{32 / kPieces}, kLoads{kPositions / kAtOnce};
  static_assert(kPositions == kRowsOfSwizzle && kAtOnce == 4);

  // Makes writes visible to the async proxy, through which wgmma reads; loading warps have time to do this.
  __device__ void tell_full(unsigned stage) const {
    show_to_products();
    stages_.tell_full(stage);
  }
  // Byte offset in a row at which half piece `half` of a key is stored, before the row's swizzle.
  static __device__ int place_of_half(int half) { return 8 * (half & 8 | half % 2 << 2 | half / 2 % 4); }

  // The warp's first key of page n of the part. The value of a key is to_value() elements after it.
  __device__ const Element* keys_of(const TilePages& part, int n) {
    const Tile& tile = part.tile;
    if (n % 32 == 0)
      ids_ = n + lane_ < part.num_pages ? page_id(tile.args.pages, tile.args.input, tile.first_row,
                                                  tile.first_page + part.first_page + n + lane_)
                                        : 0;
    return static_cast<const Element*>(tile.args.pages.data) +
           (size_t{2} * __shfl_sync(~0u, ids_, n % 32) * tile.args.num_kv_heads + tile.kv_head) *
               kPageElements +
           first_ * kHeadDim;
  }
  static __device__ size_t to_value(const TilePages& part) {
    return size_t{1} * part.tile.args.num_kv_heads * kPageElements;
  }
  // How many of the warp's positions of page n have been written; may be negative or exceed kPositions. Later
  // keys are not used, since their scores are masked; later values are zeroed.
  __device__ int num_written(const TilePages& part, int n) const {
    const Tile& tile = part.tile;
    return tile.last_position + 1 - (tile.first_page + part.first_page + n) * kPagePositions - first_;
  }

  __device__ void copy(const TilePages& part, int n) {
    // Copies keys in half pieces: those of four pieces that one product takes become contiguous.
    constexpr int kHalves{2 * kPieces}, kKeysAtOnce{32 / kHalves};
    const Element* const first = keys_of(part, n);
    const int row = lane_ / kHalves, half = lane_ % kHalves;
    const Element* const keys = first + row * kHeadDim + 4 * half;
    const Element* const values = of_lane(first) + to_value(part);
    const uint32_t stage = stages_.address(part.first_stage + static_cast<unsigned>(n)),
                   key_place = stage + (first_ + row) * kCellBytes + (place_of_half(half) ^ row * 16),
                   value_place = stage + value_place_;
    const auto copy_all = [&](const auto& is_written) {
#pragma unroll
      for (int i = 0; i < kPositions; i += kKeysAtOnce)
        if (is_written(i + row)) copy_8((key_place ^ i * 16) + i * kCellBytes, keys + i * kHeadDim);
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        copy_16((value_place ^ i * 64) + i * kAtOnce * kCellBytes, values + i * kAtOnce * kHeadDim,
                is_written(i * kAtOnce + lane_ / kPieces) ? 16 : 0);
    };
    const int written = num_written(part, n);
    if (written >= kPositions)
      copy_all([](int) { return true; });
    else
      copy_all([&](int i) { return i < written; });
  }

  __device__ void load(const TilePages& part, int n) {
    const Element* const from = of_lane(keys_of(part, n));
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      keys_[i] = *reinterpret_cast<const Eight*>(from + i * kAtOnce * kHeadDim);
      values_[i] = *reinterpret_cast<const Eight*>(from + to_value(part) + i * kAtOnce * kHeadDim);
    }
  }
  __device__ void store(const TilePages& part, int n) {
    const int written = num_written(part, n), row = lane_ / kPieces;
    uint8_t* const stage = memory_ + (part.first_stage + static_cast<unsigned>(n)) % PageStages::kStages *
                                         PageStages::kStageBytes;
    const int key_place = (first_ + row) * kCellBytes + (place_of_half(2 * (lane_ % kPieces)) ^ row * 16);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int rows_on = i * kAtOnce * kCellBytes;
      const uint4 key = Codec::to_bf16(keys_[i]);
      *reinterpret_cast<uint2*>(stage + (key_place ^ i * 64) + rows_on) = {key.x, key.y};
      *reinterpret_cast<uint2*>(stage + (key_place ^ i * 64 ^ 32) + rows_on) = {key.z, key.w};
      *reinterpret_cast<uint4*>(stage + (value_place_ ^ i * 64) + rows_on) =
          i * kAtOnce + row < written ? Codec::to_bf16(values_[i]) : make_uint4(0, 0, 0, 0);
    }
  }
  // The address of the first 8 elements that this lane loads: a piece of one of the first four positions.
  __device__ const Element* of_lane(const Element* keys) const {
    return keys + lane_ / kPieces * kHeadDim + 8 * (lane_ % kPieces);
  }

  const Stages<PageStages>& stages_;
  uint8_t* const memory_;
  const int lane_{static_cast<int>(threadIdx.x) % 32},
      first_{(static_cast<int>(threadIdx.x) / 32 - kTileWarps) * kPositions},
      value_place_{kPageBytes + (first_ + lane_ / kPieces) * kCellBytes +
                   (lane_ % kPieces ^ lane_ / kPieces) * 16};
  uint32_t ids_{0};  // page ids of 32 pages, one per lane
  Eight keys_[format == KvFormat::kBf16 ? 1 : kLoads], values_[format == KvFormat::kBf16 ? 1 : kLoads];
};

// Prevents the compiler from moving uses of these sums above this point.
template <int tiles>
__device__ void hold(float (&sums)[tiles][4]) {
#pragma unroll
  for (auto& tile : sums)
#pragma unroll
    for (float& sum : tile) sum = from_here(sum);
}

// Starts scores = q k for the page in the stage at this shared-memory address.
__device__ void start_scores(uint32_t stage, const uint32_t (&queries)[4][4], float (&scores)[4][4]) {
  const uint32_t keys = describe_columns(stage);
  fence_products();
  wgmma_bf16<false>(scores, queries[0], keys);
#pragma unroll
  for (int step = 1; step < 4; ++step) wgmma_bf16<true>(scores, queries[step], keys + 2 * step);
  end_products();
}

// Returns what to add to a descriptor made by describe_rows() to move its rows by num_bytes. The columns of
// ones stay where they are, so the distance to them, also in the descriptor, shrinks by num_bytes.
constexpr uint32_t rows_on(int num_bytes) { return static_cast<uint32_t>(num_bytes / 16) * (1u - 0x10000u); }

// Starts page = exponentials v. `values`: descriptor of the values, with 8 columns of ones for the sums.
__device__ void start_outputs(uint32_t values, const uint32_t (&exponentials)[2][4], float (&page)[9][4]) {
  fence_products();
  wgmma_bf16_by_rows<false>(page, exponentials[0], values);
  wgmma_bf16_by_rows<true>(page, exponentials[1], values + rows_on(kPageBytes / 2));
  end_products();
}

// The mailbox in which this CTA (before = 0) or the previous one (-1) leaves totals for the CTA after it.
__device__ float* mailbox_of(const AttendTilesArgs& args, int before) {
  return args.mailbox + size_t{1} * (static_cast<int>(blockIdx.x) + before) * kTileTotals;
}

class PageExponentials {  // a lane's exponentials of a page, from its scores
 public:
  float scores[4][4];
  // Pairs in bfloat16, relative to the references of the page's chunk: the A registers of two products.
  uint32_t scaled[2][4];
  float before[2];  // factors for the sums of the chunk's earlier pages

  __device__ void compute(const TileLane& lane, int page) {  // computes exponentials relative to the page's R
    hold(scores);
    lane.mask(page, scores);
    // Of a pair of adjacent lanes, one reduces the upper row for both, the other the lower row.
    const float upper = largest_of_lane<0>(scores), lower = largest_of_lane<1>(scores);
    float largest = fmaxf(is_lower_ ? lower : upper, __shfl_xor_sync(~0u, is_lower_ ? upper : lower, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    const float own = reference_of(largest), of_neighbour = __shfl_xor_sync(~0u, own, 1);
    references_[0] = is_lower_ ? of_neighbour : own;
    references_[1] = is_lower_ ? own : of_neighbour;
    take_exponentials<0>(scores, references_[0]);
    take_exponentials<1>(scores, references_[1]);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        rounded_[n][half] = from_here(pair_of(scores[n][2 * half], scores[n][2 * half + 1]));
  }
  // Scales exponentials from the page's references to its chunk's, by a power of two, which is exact.
  __device__ void scale(float (&references)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Join join(references[half], references_[half]);
      references[half] = join.reference;
      before[half] = join.before;
      // The upper half of a float32 power of two is its bfloat16.
      const __nv_bfloat162 factor = __high2bfloat162(reinterpret_cast<const __nv_bfloat162&>(join.more));
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const __nv_bfloat162 product =
            __hmul2(reinterpret_cast<const __nv_bfloat162&>(rounded_[n][half]), factor);
        scaled[n / 2][n % 2 * 2 + half] = reinterpret_cast<const uint32_t&>(product);
      }
    }
  }

 private:
  float references_[2];
  uint32_t rounded_[4][2];  // pairs in bfloat16, relative to the page's references
  // Keeps the parity in a register: otherwise the compiler reads the thread index again for each page.
  const bool is_lower_{from_here(threadIdx.x) % 2 != 0};
};

// Adds a page to its chunk's sums. `page`: outputs, then sums of exponentials. `before`: factors of the sums.
__device__ void add_page(float (&page)[9][4], const float (&before)[2], TileSums& sums) {
  hold(page);
#pragma unroll
  for (int half = 0; half < 2; ++half) sums.sum[half] = fmaf(sums.sum[half], before[half], page[8][2 * half]);
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int c = 0; c < 4; ++c) sums.outputs[j][c] = fmaf(sums.outputs[j][c], before[c / 2], page[j][c]);
}

// Attends to a part of a tile. Inside, n is the running number of a page's stage.
__device__ void attend(const TilePages& part, const Stages<PageStages>& stages, uint32_t ones,
                       uint8_t* totals_memory) {
  const Tile& tile = part.tile;
  ChunkTotals totals(totals_memory);
  if (part.first_page > 0) totals.receive(mailbox_of(tile.args, -1));
  TileLane lane(tile, part.first_page);
  uint32_t queries[4][4];
  lane.load_queries<true>(queries);
  TileSums sums;
  float page[9][4];
  const auto page_of = [to_page = tile.first_page + part.first_page - static_cast<int>(part.first_stage)](
                           unsigned n) { return to_page + static_cast<int>(n); };
  PageExponentials exponentials;
  const auto join_page = [&](unsigned n) {
    add_page(page, exponentials.before, sums);
    if (lane.is_end_of_chunk(page_of(n))) {
      if (lane.ends_chunk<0>(page_of(n))) totals.add<0>(sums);
      if (lane.ends_chunk<1>(page_of(n))) totals.add<1>(sums);
    }
  };
  const unsigned begin = part.first_stage, end = begin + static_cast<unsigned>(part.num_pages);
  const uint32_t first_values = describe_rows(stages.address(0) + kPageBytes, ones);
  const auto values_of = [&](unsigned n) {
    return first_values + n % PageStages::kStages * rows_on(PageStages::kStageBytes);
  };
  stages.wait_until_full(begin);
  start_scores(stages.address(begin), queries, exponentials.scores);
  wait_for_products<0>();
  exponentials.compute(lane, page_of(begin));
  if (begin + 1 < end) stages.wait_until_full(begin + 1);
  exponentials.scale(sums.reference);
#pragma unroll 1
  for (unsigned n = begin; n + 1 < end; ++n) {
    start_scores(stages.address(n + 1), queries, exponentials.scores);
    start_outputs(values_of(n), exponentials.scaled, page);
    wait_for_products<1>();
    exponentials.compute(lane, page_of(n + 1));
    // Keep: this branch stops the compiler from hoisting wait_for_products<0>() above it.
    if (n + 2 < end) stages.wait_until_full(n + 2);
    wait_for_products<0>();
    stages.tell_empty(n);
    join_page(n);
    exponentials.scale(sums.reference);
  }
  start_outputs(values_of(end - 1), exponentials.scaled, page);
  wait_for_products<0>();
  stages.tell_empty(end - 1);
  join_page(end - 1);
  if (part.first_page + part.num_pages < tile.num_pages) {
    totals.send(mailbox_of(tile.args, 0));
  } else {
    totals.finish<0>(sums);
    totals.finish<1>(sums);
    lane.store(sums);
  }
}

#endif

// Empty for GPU families without wgmma, where no row of kernel_table.cpp launches it.
template <KvFormat format>
__global__ void __launch_bounds__(kThreads, 1)
    attend_wgmma_kernel(const __grid_constant__ AttendTilesArgs args, int num_tiles, Timestamps timestamps) {
#if NIBBLE_WGMMA
  const EndTimestamp end_timestamp(timestamps);
  NIBBLE_DYNAMIC_SHARED(__align__(1024) uint8_t, memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (const auto i = threadIdx.x; i < kOnesBytes / sizeof(uint32_t))
    reinterpret_cast<uint32_t*>(memory + kOnesAt)[i] = kOnes;
  show_to_products();
  const Stages<PageStages> stages(memory);
  const TileStretch stretch = stretch_of_cta<kThreads>(args, num_tiles);
  wait_for_predecessor(timestamps);
  let_successor_start();
  // Calls do_part(part) for every part of the stretch, last to first.
  const auto for_parts = [&](const auto& do_part) {
    unsigned stage = 0;
    for (int i = stretch.end.tile - (stretch.end.pages == 0); i >= stretch.begin.tile; --i) {
      const Tile tile(args, args.input.tiles[i % num_tiles], i / num_tiles);
      const int begin = i == stretch.begin.tile ? stretch.begin.pages : 0,
                end = i == stretch.end.tile ? stretch.end.pages : tile.num_pages;
      // The shuffle tells the compiler that all lanes have the same value.
      const TilePages part{tile, __shfl_sync(~0u, begin, 0), __shfl_sync(~0u, end - begin, 0),
                           __shfl_sync(~0u, stage, 0)};
      do_part(part);
      stage += static_cast<unsigned>(part.num_pages);
    }
  };
  if (warp >= kTileWarps) {
    give_registers<kBringerRegisters>();
    PageBringer<format> bringer(stages, memory);
    for_parts([&](const TilePages& part) { bringer.bring(part); });
    return;
  }
  take_registers<kProductRegisters>();
  for_parts([&](const TilePages& part) {
    if (warp / 4 * 8 < part.tile.rows.num_rows) {
      attend(part, stages, shared_address(memory + kOnesAt), memory + kTotalsAt);
    } else {  // the warpgroup has no rows
      for (int n = 0; n < part.num_pages; ++n) {
        stages.wait_until_full(part.first_stage + static_cast<unsigned>(n));
        stages.tell_empty(part.first_stage + static_cast<unsigned>(n));
      }
    }
  });
#endif
}

template <typename F>
void with_kernel(KvFormat format, const F& f) {
  f(format == KvFormat::kBf16 ? attend_wgmma_kernel<KvFormat::kBf16> : attend_wgmma_kernel<KvFormat::kE4m3>);
}

}  // namespace

size_t attend_wgmma_shared_bytes() { return kTileBytes; }

void prepare_attend_wgmma() {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kE4m3})
    with_kernel(format, [](auto* kernel) { allow_shared_bytes(kernel, kTileBytes); });
}

void attend_wgmma(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args) {
  with_kernel(args.pages.format, [&](auto* kernel) {
    launch(gpu, {Operation::kAttend, "attend"}, kernel,
           {static_cast<unsigned>(
                std::min({num_tiles * args.num_kv_heads, gpu.target.num_multiprocessors, kMostTileCtas})),
            kThreads, kTileBytes},
           args, num_tiles);
  });
}

}  // namespace nibble::cuda
