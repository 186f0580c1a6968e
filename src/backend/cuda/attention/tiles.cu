// Prefill attention by mma.sync, for every GPU family. One CTA per tile (tile.cuh). Pages pass through stages
// in shared memory, which all warps read. Work for 8 heads: 4 D FLOP per head, row and position. A warp's 32
// products of a page take as long as its reads of their operands from shared memory, 256 bytes per product.
#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/tile.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {
namespace {

// kPagesAtOnce: two pages have independent scores and exponentials, and warps synchronize half as often.
constexpr int kStages{6}, kPagesAtOnce{2};
constexpr int kPageBytes{kPageElements * 2};  // bytes of a page's keys, or of its values, in bfloat16
constexpr int kStageBytes{2 * kPageBytes};
constexpr int kPiecesOfRow{kHeadDim * 2 / 16}, kPieces{2 * kPagePositions * kPiecesOfRow};
constexpr int kCopies{(kPieces + kTileThreads - 1) / kTileThreads};

// Byte offset of a 16-byte piece of a key or value in its stage. Pieces are swizzled to avoid bank conflicts:
// a read takes 4 pieces of each of 2 keys, or one piece of each of 8 values.
__device__ int key_place(int position, int piece) {
  return position * 128 + (piece ^ (position % 2 * 4)) * 16;
}
__device__ int value_place(int position, int piece) {
  return kPageBytes + position * 128 + (piece ^ (position % 8)) * 16;
}

// Copies pages to stages. Positions after the tile's last row, not written yet, are zeroed.
template <KvFormat format>
class PageCopier {
  using Codec = KvCodec<format>;

 public:
  __device__ PageCopier(const Tile& tile, uint8_t* stages) : tile_(tile), args_(tile.args), stages_(stages) {}

  // Starts copying a page to a stage. Call for pages in order.
  __device__ void start(int page, int stage) {
    const int last_page = tile_.last_position / kPagePositions;
    if constexpr (format == KvFormat::kBf16) {
      if (page <= last_page) {
        const auto* keys = page_of<format>(args_, tile_.first_row, page, tile_.kv_head);
        for_each_piece(page, [&](int, int place, size_t at, bool is_there) {
          copy_16(shared_address(stages_ + stage * kStageBytes + place), keys + at, is_there ? 16 : 0);
        });
      }
      end_copies();
    } else {  // FP8 passes through registers, to be converted: stores the page that the last call loaded
      if (loaded_page_ >= 0)
        for_each_piece(loaded_page_, [&](int n, int place, size_t, bool is_there) {
          *reinterpret_cast<uint4*>(stages_ + loaded_stage_ * kStageBytes + place) =
              is_there ? Codec::to_bf16(loaded_[n]) : make_uint4(0, 0, 0, 0);
        });
      loaded_page_ = page <= last_page ? page : -1;
      loaded_stage_ = stage;
      if (loaded_page_ >= 0) {
        const auto* keys = page_of<format>(args_, tile_.first_row, page, tile_.kv_head);
        for_each_piece(page, [&](int n, int, size_t at, bool) {
          loaded_[n] = *reinterpret_cast<const typename Codec::Eight*>(keys + at);
        });
      }
    }
  }
  // Number of pages started ahead of the current one. An FP8 page is stored when the next page is started.
  static constexpr int kAhead{kStages - kPagesAtOnce};
  // Waits until this thread's share of the oldest kPagesAtOnce pages has arrived.
  __device__ void wait() const {
    if constexpr (format == KvFormat::kBf16) wait_for_copies<kAhead - kPagesAtOnce>();
  }

 private:
  // Calls visit(n, offset in the stage, element of the page, is written) for each of the thread's pieces.
  template <typename Visit>
  __device__ void for_each_piece(int page, const Visit& visit) const {
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      const int i = n * kTileThreads + static_cast<int>(threadIdx.x);
      if (i >= kPieces) break;
      const int piece = i % kPiecesOfRow, position = i / kPiecesOfRow % kPagePositions;
      const bool is_value = i >= kPieces / 2;
      visit(n, is_value ? value_place(position, piece) : key_place(position, piece),
            size_t{1} * is_value * args_.num_kv_heads * kPageElements + position * kHeadDim + 8 * piece,
            page * kPagePositions + position <= tile_.last_position);
    }
  }

  const Tile& tile_;
  const AttendTilesArgs& args_;
  uint8_t* stages_;
  typename Codec::Eight loaded_[format == KvFormat::kBf16 ? 1 : kCopies];
  int loaded_page_{-1}, loaded_stage_{0};
};

// scores = q k for the page in the stage.
__device__ void score_page(const uint8_t* stage, const uint32_t (&queries)[4][4], float (&scores)[4][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 k = *reinterpret_cast<const uint4*>(stage + key_place(8 * n + g, 4 * half + t));
      mma_bf16(scores[n], queries[2 * half], k.x, k.y);
      mma_bf16(scores[n], queries[2 * half + 1], k.z, k.w);
    }
}

// outputs += exponentials v, sums += exponentials. Element 0 is the sum of row g, element 2 of row g + 8.
__device__ void add_values(const uint8_t* stage, const float (&exponentials)[4][4], Outputs& outputs,
                           float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto& low = exponentials[2 * half];
    const auto& high = exponentials[2 * half + 1];
    const uint32_t a[4]{pair_of(low[0], low[1]), pair_of(low[2], low[3]), pair_of(high[0], high[1]),
                        pair_of(high[2], high[3])};
    mma_bf16(sums, a, kOnes, kOnes);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      uint32_t b[4];
      load_transposed(b, shared_address(stage + value_place(16 * half + lane % 16, j + lane / 16)));
      mma_bf16(outputs[j], a, b[0], b[1]);
      mma_bf16(outputs[j + 1], a, b[2], b[3]);
    }
  }
}

template <int half>
__device__ void join_page(TileSums& sums, float reference, float sum, const Outputs& page) {
  const Join join(sums.reference[half], reference);
  sums.reference[half] = join.reference;
  sums.sum[half] = join(sums.sum[half], sum);
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int c = 2 * half; c < 2 * half + 2; ++c) sums.outputs[j][c] = join(sums.outputs[j][c], page[j][c]);
}

// A page's scores, then its exponentials, and the references of a lane's two rows.
struct PageScores {
  float scores[4][4]{};
  float upper, lower;
  __device__ void take_exponentials() {
    upper = exponentials_of_page<0>(scores);
    lower = exponentials_of_page<1>(scores);
  }
};

__device__ void add_page(const uint8_t* stage, const PageScores& page, TileSums& sums) {
  Outputs outputs{};
  float page_sums[4]{};
  add_values(stage, page.scores, outputs, page_sums);
  join_page<0>(sums, page.upper, page_sums[0], outputs);
  join_page<1>(sums, page.lower, page_sums[2], outputs);
}

constexpr size_t kTileBytes{kStages * kStageBytes + ChunkTotals::kBytes};

template <KvFormat format>
__global__ void __launch_bounds__(kTileThreads, 1)
    attend_tiles_kernel(const __grid_constant__ AttendTilesArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  NIBBLE_DYNAMIC_SHARED(__align__(128) uint8_t, stages);
  // The longest rows come first, so the last CTAs of a launch are short.
  const Tile tile(args, args.input.tiles[gridDim.y - 1 - blockIdx.y], static_cast<int>(blockIdx.x));
  wait_for_predecessor(timestamps);
  let_successor_start();

  PageCopier<format> copier(tile, stages);
  int started = 0;
  const auto start_next = [&] {
    copier.start(tile.first_page + started, started % kStages);
    ++started;
  };
#pragma unroll
  for (int n = 0; n < copier.kAhead; ++n) start_next();

  TileLane lane(tile);
  uint32_t queries[4][4];
  lane.load_queries<false>(queries);
  TileSums sums;
  ChunkTotals totals(stages + kStages * kStageBytes);
  const auto take = [&](int page, const uint8_t* stage, const PageScores& scores) {
    add_page(stage, scores, sums);
    if (lane.ends_chunk<0>(page)) totals.add<0>(sums);
    if (lane.ends_chunk<1>(page)) totals.add<1>(sums);
  };
  for (int n = 0; n < tile.num_pages; n += kPagesAtOnce) {
    copier.wait();
    __syncthreads();
    for (int i = 0; i < kPagesAtOnce; ++i) start_next();  // into stages that all warps have finished reading
    const int page = tile.first_page + n;
    const uint8_t *stage = stages + n % kStages * kStageBytes, *next = stage + kStageBytes;
    const bool sees_first = lane.sees(page), sees_second = lane.sees(page + 1);
    if (sees_first && sees_second) {
      PageScores first, second;
      score_page(stage, queries, first.scores);
      score_page(next, queries, second.scores);
      lane.mask(page, first.scores);
      lane.mask(page + 1, second.scores);
      first.take_exponentials();
      second.take_exponentials();
      take(page, stage, first);
      take(page + 1, next, second);
    } else if (sees_first || sees_second) {
      const int seen = sees_first ? page : page + 1;
      const uint8_t* of_seen = sees_first ? stage : next;
      PageScores only;
      score_page(of_seen, queries, only.scores);
      lane.mask(seen, only.scores);
      only.take_exponentials();
      take(seen, of_seen, only);
    }
  }
  totals.finish<0>(sums);
  totals.finish<1>(sums);
  lane.store(sums);
}

template <typename F>
void with_kernel(KvFormat format, const F& f) {
  f(format == KvFormat::kBf16 ? attend_tiles_kernel<KvFormat::kBf16> : attend_tiles_kernel<KvFormat::kE4m3>);
}

}  // namespace

size_t attend_tiles_shared_bytes() { return kTileBytes; }

void prepare_attend_tiles() {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kE4m3})
    with_kernel(format, [](auto* kernel) { allow_shared_bytes(kernel, kTileBytes); });
}

void attend_tiles(const LaunchContext& gpu, int num_tiles, const AttendTilesArgs& args) {
  with_kernel(args.pages.format, [&](auto* kernel) {
    launch(gpu, {Operation::kAttend, "attend"}, kernel,
           {dim3(static_cast<unsigned>(args.num_kv_heads), static_cast<unsigned>(num_tiles)), kTileThreads,
            kTileBytes},
           args);
  });
}

}  // namespace nibble::cuda
