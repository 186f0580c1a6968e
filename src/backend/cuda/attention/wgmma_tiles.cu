// Prefill attention by wgmma, for Hopper: out = softmax(q k, sink) v for tiles of 24 rows and 8 query heads
// (tile.cuh). At most one CTA runs per SM; the tiles are divided evenly among the CTAs (stretch.cuh). Each of
// three warpgroups handles a third of a tile's rows, in iterations of two pages (`step` in the code's names).
// While one warpgroup computes exponentials, the others multiply. Four more warps load pages into stages in
// shared memory, as far ahead as the stages allow, so that the warpgroups need not wait for each other.
//
// In an iteration, a warpgroup multiplies 64 rows (8 rows of the tile x 8 heads) with 64 positions:
//   scores[64, 64] = q[64, 64] k[64, 64]           4 wgmma of n = 64, 128 clocks
//   exponentials = 2^(scores - R), in bfloat16     64 x 64 at 16 per clock and SM, 256 clocks
//   sums[64, 72] += exponentials[64, 64] [v | 1]   4 wgmma of n = 72, 144 clocks
// The reference R is normally the same for all iterations (page.cuh), so an iteration needs no maximum, no
// rescaling and no separate sum. A thread executes about 250 instructions per iteration, among them 32 that
// subtract R, 32 that compute exponentials, and 16 that round. If wgmma and exponentials overlapped
// completely, 132 SMs at 1.85 GHz would reach 940 TFLOP/s, counting 4 x 64 FLOP per query head, row and
// position (64 multiplications and 64 additions with the key, the same number with the value).
//
// The results have the bits of attend_rows() (rows.cu). In rows.cu, a lane loads 8 adjacent columns of a key
// for two mma, so each mma sums over the first or the last 4 columns of each of four pieces of 8 columns. A
// wgmma must sum over the same 16 columns, and reads 16 contiguous columns. So keys are copied to the stages
// in half pieces of 4 columns, ordered so that the 16 columns of each wgmma are contiguous. The order of
// these 16 columns may differ from rows.cu: it does not change the bits (docs/decisions/0014). The columns of
// values keep their order. Exponentials are multiplied with 72 columns: 64 columns of values, and 8 columns
// of ones, which sum the exponentials.
//
// docs/decisions/0024 describes the limits of the main loop (in PartLoop) and the variants that were dropped.
#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/stretch.cuh"
#include "backend/cuda/pipeline/stages.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

namespace nibble::cuda {
// kBringers: warps that load pages. They form a warpgroup (4 warps), because setmaxnreg changes the number of
// registers for whole warpgroups only.
constexpr int kBringers{4}, kThreads{kTileThreads + 32 * kBringers};
constexpr int kBringerRegisters{32}, kProductRegisters{160};
static_assert(kTileThreads * kProductRegisters + 32 * kBringers * kBringerRegisters <= 65536);
// Number of bytes of a page's keys, or of its values, in bfloat16.
constexpr int kPageBytes{kPagePositions * kCellBytes};
constexpr int kStepPages{2}, kStepBytes{kStepPages * kPageBytes};
static_assert(kChunkPages % kStepPages == 0);

// A stage holds the pages of one iteration: the keys of kStepPages pages, then the values of these pages. The
// struct is outside the unnamed namespace: inside, unused members of the struct would cause warnings for GPU
// families without wgmma.
struct PageStages {
  static constexpr int kStages{6}, kStageBytes{2 * kStepBytes}, kWarps{kTileWarps}, kCopyLanes{kBringers};
  // Largest number of stages for which a loading warp has copies in flight.
  static constexpr int kUnderWay{3};
};

namespace {

// Largest window whose positions always fit in one chunk. With a larger window, the chunks of a tile's rows
// would end at different pages, and some chunks would end between the two pages of an iteration. No model has
// such a window; if one had, attend_wgmma() would call attend_tiles().
constexpr int kMostWindow{(kChunkPages - 1) * kPagePositions + 1};

// Shared memory holds the stages; then ones, as columns 65 to 72 of the values of 16 positions; then the
// totals that TileSums::put_aside() moves out of registers in rare iterations.
constexpr int kOnesAt{(stages_bytes(PageStages::kStages, PageStages::kStageBytes) + 1023) / 1024 * 1024},
    kOnesBytes{16 * kCellBytes}, kAsideAt{kOnesAt + kOnesBytes};
constexpr size_t kTileBytes{kAsideAt + sizeof(float) * TileSums::kAside * kTileThreads};

#if NIBBLE_WGMMA

// The pages of a tile that one CTA processes: `num_pages` pages from page number `first_page` of the tile on,
// in `num_steps` iterations of kStepPages pages. The last iteration may include a page that no row sees.
// `first_stage`: number of the first iteration's stage, counted from the start of the kernel.
struct TilePages {
  const Tile& tile;
  int first_page, num_pages, num_steps;
  unsigned first_stage;
};

// Loads the eight positions of each page that are assigned to a warp. In a stage, the key or value of a
// position is a row of eight 16-byte pieces; piece p of row r is stored at place p ^ (r % 8) of the row. A
// lane loads the same piece of several rows (or the same half piece, copy()). To get the piece's address in
// the next row, the lane adds the distance between the rows, and flips in the piece's place the bits in which
// r % 8 differs.
template <KvFormat format>
class PageBringer {
  using Codec = KvCodec<format>;
  using Element = typename Codec::Element;
  using Eight = typename Codec::Eight;

 public:
  // `memory`: pointer to the stages' shared memory, for plain stores. `stages` has only shared addresses, for
  // copies.
  __device__ PageBringer(const Stages<PageStages>& stages, uint8_t* memory)
      : stages_(stages), memory_(memory) {}

  // Loads the pages of `part` into the stages, one stage per iteration.
  __device__ void bring(const TilePages& part) {
    const auto stage_of = [&](int step) { return part.first_stage + static_cast<unsigned>(step); };
    if constexpr (format == KvFormat::kBf16) {
      for (int step = 0; step < part.num_steps; ++step) {
        stages_.wait_until_empty(stage_of(step));
#pragma unroll
        for (int i = 0; i < kStepPages; ++i) copy(part, step, i);
        end_copies();
        if (step < PageStages::kUnderWay) continue;
        wait_for_copies<PageStages::kUnderWay>();
        tell_full(stage_of(step - PageStages::kUnderWay));
      }
      wait_for_copies<0>();
      for (int step = max(0, part.num_steps - PageStages::kUnderWay); step < part.num_steps; ++step)
        tell_full(stage_of(step));
    } else {  // FP8 pages pass through registers, where they are converted to bfloat16
      load(part, 0);
      for (int step = 0; step < part.num_steps; ++step) {
        stages_.wait_until_empty(stage_of(step));
        for (int i = 0; i < kStepPages; ++i) {
          store(part, step, i);
          load(part, step * kStepPages + i + 1);
        }
        tell_full(stage_of(step));
      }
    }
  }

 private:
  static constexpr int kPositions{kPagePositions / kBringers};  // positions of a page that one warp loads
  static constexpr int kPieces{kHeadDim / 8};                   // pieces of 8 elements in a key or value
  static constexpr int kAtOnce{32 / kPieces}, kLoads{kPositions / kAtOnce};
  static_assert(kPositions == kRowsOfSwizzle && kAtOnce == 4);

  // Signals that a stage is full. wgmma reads shared memory through the async proxy, to which earlier
  // writes must first be made visible. The loading warps do that, because they have time to spare.
  __device__ void tell_full(unsigned stage) const {
    show_to_products();
    stages_.tell_full(stage);
  }
  // Returns the byte offset of a half piece (4 columns) in its key's row of the stage, before the row is
  // swizzled. `half`: number of the half piece in the key, 0 to 15.
  static __device__ int place_of_half(int half) { return 8 * (half & 8 | half % 2 << 2 | half / 2 % 4); }

  // Returns the address of the warp's first key on page n of the part, in the KV cache. If the part has no
  // page n, returns an address in some other page. A value is to_value() elements after its key.
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
  // Returns how many of the warp's positions of page n are at or before the tile's last position. The number
  // may be negative or exceed kPositions. Later positions are not written yet: their scores are masked, and
  // their values must be zeroed.
  __device__ int num_written(const TilePages& part, int n) const {
    const Tile& tile = part.tile;
    return tile.last_position + 1 - (tile.first_page + part.first_page + n) * kPagePositions - first_;
  }

  __device__ void copy(const TilePages& part, int step, int page_of_step) {
    const int n = step * kStepPages + page_of_step;
    // Keys are copied in half pieces (4 columns), because the 16 columns that one wgmma reads, contiguous in
    // the stage, are half pieces from four different pieces (see the top of this file).
    constexpr int kHalves{2 * kPieces}, kKeysAtOnce{32 / kHalves};
    const Element* const first = keys_of(part, n);
    const int row = lane_ / kHalves, half = lane_ % kHalves;
    const Element* const keys = first + row * kHeadDim + 4 * half;
    const Element* const values = of_lane(first) + to_value(part);
    const uint32_t stage = stages_.address(part.first_stage + static_cast<unsigned>(step)) +
                           page_of_step * kPageBytes,
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
  __device__ void store(const TilePages& part, int step, int page_of_step) {
    const int written = num_written(part, step * kStepPages + page_of_step), row = lane_ / kPieces;
    uint8_t* const stage =
        memory_ +
        (part.first_stage + static_cast<unsigned>(step)) % PageStages::kStages * PageStages::kStageBytes +
        page_of_step * kPageBytes;
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
  // Returns the address of the 8 elements that the lane loads first: a piece of one of the warp's first four
  // positions.
  __device__ const Element* of_lane(const Element* keys) const {
    return keys + lane_ / kPieces * kHeadDim + 8 * (lane_ % kPieces);
  }

  const Stages<PageStages>& stages_;
  uint8_t* const memory_;
  const int lane_{static_cast<int>(threadIdx.x) % 32},
      first_{(static_cast<int>(threadIdx.x) / 32 - kTileWarps) * kPositions},
      value_place_{kStepBytes + (first_ + lane_ / kPieces) * kCellBytes +
                   (lane_ % kPieces ^ lane_ / kPieces) * 16};
  uint32_t ids_{0};  // page ids of 32 pages of the part, one per lane
  Eight keys_[format == KvFormat::kBf16 ? 1 : kLoads], values_[format == KvFormat::kBf16 ? 1 : kLoads];
};

// Keeps the compiler from moving code that uses `sums` to before this call.
template <int tiles>
__device__ void hold(float (&sums)[tiles][4]) {
#pragma unroll
  for (auto& tile : sums)
#pragma unroll
    for (float& sum : tile) sum = from_here(sum);
}

using StepScores = float[4 * kStepPages][4];
using StepExponentials = Exponentials[kStepPages];

// Starts scores = q k for the pages of one iteration. `keys`: descriptor of these pages' keys
// (describe_columns()).
__device__ void start_scores(uint32_t keys, const uint32_t (&queries)[4][4], StepScores& scores) {
  fence_products();
  wgmma_bf16<false>(scores, queries[0], keys);
#pragma unroll
  for (int step = 1; step < 4; ++step) wgmma_bf16<true>(scores, queries[step], keys + 2 * step);
  end_products();
}

// Returns the number that, added to a descriptor from describe_rows(), moves the start of the descriptor's
// rows by num_bytes. The columns of ones stay where they are, so the distance to them shrinks by num_bytes.
constexpr uint32_t rows_on(int num_bytes) { return static_cast<uint32_t>(num_bytes / 16) * (1u - 0x10000u); }

// Starts sums += exponentials * [v | 1] for the pages of one iteration. `values`: descriptor of the values v,
// followed by 8 columns of ones (describe_rows()).
__device__ void start_outputs(uint32_t values, const StepExponentials& exponentials, float (&sums)[9][4]) {
  fence_products();
#pragma unroll
  for (int i = 0; i < 2 * kStepPages; ++i)
    wgmma_bf16_by_rows<true>(sums, exponentials[i / 2][i % 2], values + i * rows_on(kPageBytes / 2));
  end_products();
}

// Recomputes the warp's scores of a page, 8 positions at a time. Calls f(n, scores) for positions 8 n to 8 n
// + 7, n = 0 .. 3. `keys`: shared-memory address of the page's keys.
template <typename F>
__device__ void for_scores_again(uint32_t keys, const uint32_t (&queries)[4][4], const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll 1
  for (int n = 0; n < 4; ++n) {
    float scores[1][4]{};
    const uint32_t key = keys + (8 * n + g) * kCellBytes + 4 * t;
#pragma unroll
    for (int step = 0; step < 4; ++step)
      mma_bf16(scores[0], queries[step], load_shared_4(key + ((2 * step) ^ g) * 16),
               load_shared_4(key + ((2 * step + 1) ^ g) * 16));
    f(n, scores);
  }
}

// Returns the mailbox in which a CTA leaves a tile's totals for the next CTA. `before`: 0 for the mailbox of
// this CTA, -1 for that of the previous CTA.
__device__ float* mailbox_of(const AttendTilesArgs& args, int before) {
  return args.mailbox + size_t{1} * (static_cast<int>(blockIdx.x) + before) * kTileTotals;
}

// A lane's scores for the pages of one iteration, and the exponentials that are computed from these scores.
class StepSoftmax {
 public:
  StepScores scores;
  StepExponentials exponentials;

  // `aside`: shared memory for TileSums::put_aside() of all threads.
  __device__ StepSoftmax(const TileLane& lane, const uint32_t (&queries)[4][4], uint8_t* aside)
      : lane_(lane),
        queries_(queries),
        aside_(reinterpret_cast<float*>(aside) + threadIdx.x),
        of_head_(lane.reference_of_head()) {}

  // Computes the exponentials of `scores`, relative to the head's normal softmax reference. `page`: the
  // iteration's first page.
  __device__ void take(int page) {
    hold(scores);
    lane_.mask(page * kPagePositions, scores);
    bits_ = is_raised_;
#pragma unroll
    for (int n = 0; n < 4 * kStepPages; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair =
            pair_of(exp2_of(scores[n][2 * half] - of_head_), exp2_of(scores[n][2 * half + 1] - of_head_));
        exponentials[n / 4][n / 2 % 2][n % 2 * 2 + half] = pair;
        bits_ |= pair;
      }
  }
  // Returns whether any exponentials or sums of the warp are relative to another softmax reference than the
  // head's normal one. If so, call join() before you multiply the exponentials.
  __device__ bool is_rare() const { return __ballot_sync(~0u, (bits_ & kTooLarge) != 0) != 0; }
  // Makes each row's exponentials relative to the same reference as the row's sums. `keys`: shared-memory
  // address of the iteration's keys. `page`: the iteration's first page.
  __device__ void join(TileSums& sums, uint32_t keys, int page) {
    // The loop below has no registers left for the totals.
    sums.put_aside(aside_);
    float before[2]{1, 1};
#pragma unroll
    for (int i = 0; i < kStepPages; ++i) {
      float references[2]{of_head_, of_head_};
      const uint32_t bits = bits_of_row<0>(exponentials[i]) | bits_of_row<1>(exponentials[i]);
      if (__ballot_sync(~0u, (bits & kTooLarge) != 0))
        replace(i, keys + i * kPageBytes, page + i, references);
      before[0] *= join_page<0>(i, references[0], sums);
      before[1] *= join_page<1>(i, references[1], sums);
    }
    sums.take_back(aside_, before);
    note_references(sums);
  }
  // Sets is_raised_ from the softmax references of the sums. Call it whenever these references have changed.
  __device__ void note_references(const TileSums& sums) {
    is_raised_ = sums.reference(0) == of_head_ && sums.reference(1) == of_head_ ? 0 : kTooLarge;
  }
  __device__ float of_head() const { return of_head_; }

 private:
  // Replaces the exponentials of the iteration's page i (number `page` of the sequence) in rows that need a
  // softmax reference of their own, and stores the new references in `references`. The page's scores are no
  // longer in registers, so they are recomputed. `keys`: shared-memory address of the page's keys.
  __device__ void replace(int i, uint32_t keys, int page, float (&references)[2]) {
    uint32_t bits[2]{bits_of_row<0>(exponentials[i]), bits_of_row<1>(exponentials[i])};
    float largest[2]{-INFINITY, -INFINITY};
    const auto for_scores = [&](const auto& f) {
      for_scores_again(keys, queries_, [&](int n, float(&scores)[1][4]) {
        lane_.mask(page * kPagePositions + 8 * n, scores);
        f(n, scores[0]);
      });
    };
    for_scores([&](int, const float(&scores)[4]) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        largest[half] = fmaxf(largest[half], fmaxf(scores[2 * half], scores[2 * half + 1]));
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bits[half] = reduce_neighbours<4>(bits[half], BitwiseOr());
      largest[half] = reduce_neighbours<4>(largest[half], Maximum());
      if (bits[half] & kTooLarge) references[half] = reference_of(largest[half]);
    }
    for_scores([&](int n, const float(&scores)[4]) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair = pair_of(exp2_of(scores[2 * half] - references[half]),
                                      exp2_of(scores[2 * half + 1] - references[half]));
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
          if (tile == n) exponentials[i][tile / 2][tile % 2 * 2 + half] = pair;
      }
    });
  }
  // Raises the softmax reference of row `half` (0 or 1) to `reference` if `reference` is larger. `reference`:
  // the row's softmax reference on page i of the iteration. Rescales the row's sums and the row's
  // exponentials of pages 0 to i to the larger reference. Returns the factor by which the caller must
  // multiply the row's totals.
  template <int half>
  __device__ float join_page(int i, float reference, TileSums& sums) {
    const Join join = sums.raise<half>(reference);
#pragma unroll
    for (int earlier = 0; earlier < kStepPages; ++earlier)
      if (earlier < i) scale<half>(exponentials[earlier], join.before);
    scale<half>(exponentials[i], join.more);
    return join.before;
  }

  const TileLane& lane_;
  const uint32_t (&queries_)[4][4];
  float* const aside_;
  const float of_head_;
  // is_raised_: kTooLarge if any row's sums have another softmax reference than of_head_, otherwise 0
  uint32_t bits_, is_raised_{0};
};

// The iterations of one part of a tile's pages, for the warp's two rows.
class PartLoop {
 public:
  __device__ PartLoop(const TilePages& part, const Stages<PageStages>& stages, uint32_t ones,
                      const uint32_t (&queries)[4][4])
      : stages_(stages),
        queries_(queries),
        first_stage_(part.first_stage),
        first_page_(part.tile.first_page + part.first_page),
        num_steps_(part.num_steps),
        first_values_(describe_rows(stages.address(0) + kStepBytes, ones)),
        has_chunks_(part.tile.args.window == 0) {}

  __device__ void run(StepSoftmax& softmax, TileSums& sums) const {
    start_scores_of(0, softmax);
    wait_for_products<0>();
    softmax.take(page_of(0));
    int step = 0;
    // The address and state of the next stage are read before the exponentials are computed: between the last
    // exponential and the next wgmma, each instruction costs time. The vote of is_rare() costs no time,
    // because it runs while wgmma computes the next scores. After the last iteration, next_keys is not used.
    uint32_t next_keys = keys_of(1);
    bool is_next_full = stages_.is_full(stage_of(1));
#pragma unroll 1
    for (; step + 1 < num_steps_; ++step) {
      if (!is_next_full) stages_.wait_until_full(stage_of(step + 1));
      start_scores(next_keys, queries_, softmax.scores);
      if (__builtin_expect(softmax.is_rare(), false)) break;
      finish_outputs_of(step, softmax, sums);
      next_keys = keys_of(step + 2);
      is_next_full = stages_.is_full(stage_of(step + 2));
      take(step + 1, softmax, sums);
    }
    // The same iterations with join(), from the first that needs join() to the end of the part. Their code is
    // separate, because the compiler would spill if join() returned into the loop above. Other warps of the
    // warpgroup may still be in that loop, so both loops start the same wgmma in the same order.
    const bool joins = softmax.is_rare();
#pragma unroll 1
    for (; joins && step + 1 < num_steps_; ++step) {
      wait_for_products<0>();
      hold(softmax.scores);
      softmax.join(sums, stages_.address(stage_of(step)), page_of(step));
      finish_outputs_of(step, softmax, sums);
      take(step + 1, softmax, sums);
      if (step + 2 < num_steps_) start_scores_of(step + 2, softmax);
    }
    if (joins) softmax.join(sums, stages_.address(stage_of(num_steps_ - 1)), page_of(num_steps_ - 1));
    finish_outputs_of(num_steps_ - 1, softmax, sums);
    sums.end_chunk();
  }

 private:
  __device__ unsigned stage_of(int step) const { return first_stage_ + static_cast<unsigned>(step); }
  __device__ int page_of(int step) const { return first_page_ + step * kStepPages; }
  __device__ uint32_t keys_of(int step) const { return describe_columns(stages_.address(stage_of(step))); }
  __device__ uint32_t values_of(int step) const {
    return first_values_ + stage_of(step) % PageStages::kStages * rows_on(PageStages::kStageBytes);
  }
  __device__ void start_scores_of(int step, StepSoftmax& softmax) const {
    stages_.wait_until_full(stage_of(step));
    start_scores(keys_of(step), queries_, softmax.scores);
  }
  // Multiplies the exponentials of iteration `step` with the iteration's values, and waits for all wgmma.
  __device__ void finish_outputs_of(int step, const StepSoftmax& softmax, TileSums& sums) const {
    start_outputs(values_of(step), softmax.exponentials, sums.chunk);
    wait_for_products<0>();
    hold(sums.chunk);
    stages_.tell_empty(stage_of(step));
  }
  // Computes the exponentials of iteration `step`, whose scores are ready.
  __device__ void take(int step, StepSoftmax& softmax, TileSums& sums) const {
    if (has_chunks_ && page_of(step) % kChunkPages == 0) sums.end_chunk();
    softmax.take(page_of(step));
  }

  const Stages<PageStages>& stages_;
  const uint32_t (&queries_)[4][4];
  const unsigned first_stage_;  // copied from the part, so that the compiler uses uniform registers
  const int first_page_, num_steps_;
  const uint32_t first_values_;
  const bool has_chunks_;
};

// Computes attention of the warp's two rows for one part of a tile's pages. If the part ends with the tile's
// last page, stores the rows' results; otherwise sends the totals to the next CTA.
__device__ void attend(const TilePages& part, const Stages<PageStages>& stages, uint32_t ones,
                       uint8_t* aside) {
  const Tile& tile = part.tile;
  TileLane lane(tile, part.first_page);
  uint32_t queries[4][4];
  lane.load_queries<true>(queries);
  StepSoftmax softmax(lane, queries, aside);
  TileSums sums(softmax.of_head());
  if (part.first_page > 0) {
    sums.receive(mailbox_of(tile.args, -1));
    softmax.note_references(sums);
  }
  PartLoop(part, stages, ones, queries).run(softmax, sums);
  if (part.first_page + part.num_pages < tile.num_pages)
    sums.send(mailbox_of(tile.args, 0));
  else
    lane.store(sums);
}

#endif

// The kernel of attend_wgmma(). Without wgmma the body is empty: kernel_table.cpp then has no row that
// launches this kernel.
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
  // Calls do_part(part) for each tile's part in this CTA's stretch, from the last tile to the first.
  const auto for_parts = [&](const auto& do_part) {
    unsigned stage = 0;
    for (int i = stretch.end.tile - (stretch.end.pages == 0); i >= stretch.begin.tile; --i) {
      const Tile tile(args, args.input.tiles[i % num_tiles], i / num_tiles);
      const int begin = i == stretch.begin.tile ? stretch.begin.pages : 0,
                end = i == stretch.end.tile ? stretch.end.pages : tile.num_pages;
      // The shuffles tell the compiler that all lanes have the same value.
      const TilePages part{tile, __shfl_sync(~0u, begin, 0), __shfl_sync(~0u, end - begin, 0),
                           __shfl_sync(~0u, (end - begin + kStepPages - 1) / kStepPages, 0),
                           __shfl_sync(~0u, stage, 0)};
      do_part(part);
      stage += static_cast<unsigned>(part.num_steps);
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
      attend(part, stages, shared_address(memory + kOnesAt), memory + kAsideAt);
    } else {  // The warpgroup has no rows of this tile: it only releases the stages.
      for (int step = 0; step < part.num_steps; ++step) {
        stages.wait_until_full(part.first_stage + static_cast<unsigned>(step));
        stages.tell_empty(part.first_stage + static_cast<unsigned>(step));
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
  if (args.window > kMostWindow) return attend_tiles(gpu, num_tiles, args);
  with_kernel(args.pages.format, [&](auto* kernel) {
    launch(gpu, {Operation::kAttend, "attend"}, kernel,
           {static_cast<unsigned>(
                std::min({num_tiles * args.num_kv_heads, gpu.target.num_multiprocessors, kMostTileCtas})),
            kThreads, kTileBytes},
           args, num_tiles);
  });
}

}  // namespace nibble::cuda
