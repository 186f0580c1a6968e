// Prefill attention by mma.sync, for every GPU family. Each CTA computes one tile (tile.cuh). Pages are
// copied to stages in shared memory, and every warp reads each stage.
//
// Work per query head, row and position: 4 x 64 FLOP (64 multiplications and 64 additions with the key, the
// same number with the value). A warp multiplies with a page's keys and values in 32 mma.m16n8k16, which take
// as long as reading their B operands from shared memory (256 bytes each).
#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/tile.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {
namespace {

// kPagesAtOnce: pages per iteration of the main loop. With two instead of one, the latencies of two
// independent pages overlap, and warps synchronize half as often.
constexpr int kStages{6}, kPagesAtOnce{2};
constexpr int kPageBytes{kPageElements * 2};  // bytes of a page's keys, or of its values, in bfloat16
constexpr int kStageBytes{2 * kPageBytes};
constexpr int kPiecesOfRow{kHeadDim * 2 / 16}, kPieces{2 * kPagePositions * kPiecesOfRow};
constexpr int kCopies{(kPieces + kTileThreads - 1) / kTileThreads};

// key_place() and value_place() return the byte offset of a 16-byte piece of a key or value in the stage of
// its page. Pieces are swizzled so that the 8 lanes that read at once access different banks. These lanes
// read 4 pieces of each of 2 keys, or one piece of each of 8 values.
__device__ int key_place(int position, int piece) {
  return position * 128 + (piece ^ (position % 2 * 4)) * 16;
}
__device__ int value_place(int position, int piece) {
  return kPageBytes + position * 128 + (piece ^ (position % 8)) * 16;
}

// Copies pages of the KV cache to stages. Positions after the tile's last row are not written yet: zeros are
// stored as their keys and values.
template <KvFormat format>
class PageCopier {
  using Codec = KvCodec<format>;

 public:
  __device__ PageCopier(const Tile& tile, uint8_t* stages) : tile_(tile), args_(tile.args), stages_(stages) {}

  // Starts the copy of a page to a stage. Call it for the tile's pages in order.
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
      // FP8 pages pass through registers, where they are converted. Each call of start() first stores the
      // page that the previous call loaded.
    } else {
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
  // Number of pages whose copies are in flight while kPagesAtOnce other pages are multiplied. An FP8 page is
  // stored in its stage only when the copy of the next page is started.
  static constexpr int kAhead{kStages - kPagesAtOnce};
  // Waits until this thread's copies of the oldest kPagesAtOnce pages have arrived.
  __device__ void wait() const {
    if constexpr (format == KvFormat::kBf16) wait_for_copies<kAhead - kPagesAtOnce>();
  }

 private:
  // Calls visit(n, byte offset in the stage, element offset from the page's first key, whether the position
  // is written yet) for each 16-byte piece that this thread copies.
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

// Computes scores = q k for the page whose keys are in `stage`.
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

// Computes sums += exponentials * [v | 1]: multiplies with the values v in `stage`, and with a column of ones
// to sum the exponentials.
__device__ void add_values(const uint8_t* stage, const Exponentials& exponentials, float (&sums)[9][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    mma_bf16(sums[8], exponentials[half], kOnes, kOnes);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      uint32_t b[4];
      load_transposed(b, shared_address(stage + value_place(16 * half + lane % 16, j + lane / 16)));
      mma_bf16(sums[j], exponentials[half], b[0], b[1]);
      mma_bf16(sums[j + 1], exponentials[half], b[2], b[3]);
    }
  }
}

// The exponentials 2^(score - R) of a page for a lane's two rows, and R, the softmax reference, of each row.
struct PageExponentials {
  Exponentials pairs;
  float references[2];

  __device__ PageExponentials(const float (&scores)[4][4], float of_head) : references{of_head, of_head} {
    take_exponentials<0>(scores, of_head, pairs);
    take_exponentials<1>(scores, of_head, pairs);
    const uint32_t bits = bits_of_row<0>(pairs) | bits_of_row<1>(pairs);
    if (__ballot_sync(~0u, (bits & kTooLarge) != 0) == 0) return;
    references[0] = own_reference<0>(scores, of_head, pairs);
    references[1] = own_reference<1>(scores, of_head, pairs);
  }
  // Makes the exponentials and the sums of row `half` relative to the larger of their two softmax references.
  template <int half>
  __device__ void join(TileSums& sums) {
    if (references[half] == sums.reference(half)) return;
    const Join join = sums.raise<half>(references[half]);
    sums.scale_total<half>(join.before);
    scale<half>(pairs, join.more);
  }
};

// Multiplies a page's exponentials with its values, and adds the result to the current chunk.
__device__ void add_page(const uint8_t* stage, PageExponentials& page, TileSums& sums) {
  page.join<0>(sums);
  page.join<1>(sums);
  add_values(stage, page.pairs, sums.chunk);
}

constexpr size_t kTileBytes{kStages * kStageBytes};

template <KvFormat format>
__global__ void __launch_bounds__(kTileThreads, 1)
    attend_tiles_kernel(const __grid_constant__ AttendTilesArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  NIBBLE_DYNAMIC_SHARED(__align__(128) uint8_t, stages);
  // Later tiles of a prompt see more positions and take longer. They start first, so that the launch ends
  // with short tiles.
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
  const float of_head = lane.reference_of_head();
  TileSums sums(of_head);
  const auto take = [&](int page, const uint8_t* stage, PageExponentials& exponentials) {
    add_page(stage, exponentials, sums);
    if (lane.ends_chunk<0>(page)) sums.end_chunk<0>();
    if (lane.ends_chunk<1>(page)) sums.end_chunk<1>();
  };
  for (int n = 0; n < tile.num_pages; n += kPagesAtOnce) {
    copier.wait();
    __syncthreads();
    for (int i = 0; i < kPagesAtOnce; ++i) start_next();  // overwrites stages that all warps have read
    const int page = tile.first_page + n;
    const uint8_t *stage = stages + n % kStages * kStageBytes, *next = stage + kStageBytes;
    const bool sees_first = lane.sees(page), sees_second = lane.sees(page + 1);
    if (sees_first && sees_second) {
      float scores[4][4]{}, next_scores[4][4]{};
      score_page(stage, queries, scores);
      score_page(next, queries, next_scores);
      lane.mask(page * kPagePositions, scores);
      lane.mask((page + 1) * kPagePositions, next_scores);
      PageExponentials first(scores, of_head), second(next_scores, of_head);
      take(page, stage, first);
      take(page + 1, next, second);
    } else if (sees_first || sees_second) {
      const int seen = sees_first ? page : page + 1;
      const uint8_t* of_seen = sees_first ? stage : next;
      float scores[4][4]{};
      score_page(of_seen, queries, scores);
      lane.mask(seen * kPagePositions, scores);
      PageExponentials only(scores, of_head);
      take(seen, of_seen, only);
    }
  }
  sums.end_chunk();
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
