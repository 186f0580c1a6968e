// Chooses a token from each row of logits. The formulas, and their order, are those of backend/sample.h.
//
// A row's logits (804 KB for V = 201,088 tokens) are in L2. A small kernel finds the likeliest token, which
// is all that greedy rows need. A second kernel handles the other rows. In launches of up to 33 rows (on 132
// SMs), a cluster of 8 CTAs passes over the logits of each row: each CTA reads an eighth, which takes 0.7 us
// at the 150 GB/s that an SM reads, plus some arithmetic and a barrier. With more rows, and on GPUs before
// Hopper, which have no clusters, a single CTA handles each row.
//
// Drawing a token takes one pass over the logits. top_k and top_p search for the least likely token that is
// kept: a pass counts tokens (top_k) or adds up weights (top_p) in each of 256 bins, likeliest first; the
// next pass subdivides the bin in which the running sum reaches its target. A search usually takes two or
// three passes, at most eight.
//
// A token's weight is an integer, in units of 2^-44 of the largest weight. Sums of integers are exact in any
// order, so a row gives the same token in every run and batch. Rounding the weights moves the points in the
// running sum at which one token ends and the next begins, by at most 2^-45 V = 6e-9 of the largest weight.
// That is less than the error of a single float32 weight.
#include <cooperative_groups.h>

#include <cfloat>
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/functional>
#include <type_traits>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/pipeline/ordered.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/ptx/exp2.cuh"
#include "backend/cuda/sample/args.h"
#include "core/numbers/random.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads{1024}, kWarps{kThreads / 32}, kBinBits{8}, kBins{1 << kBinBits}, kClusterCtas{8};
constexpr int kBestThreads{256};
constexpr int kResidentCtas{2};  // CTAs of sample_kernel() that an SM holds at once
constexpr int kTokenBits{19}, kWeightBits{44};
static_assert(kMaxVocab == 1 << kTokenBits && kTokenBits + kWeightBits < 64);
static_assert(kWarps == 32);  // find() needs it: each lane of a warp holds the sum of one of the CTA's warps

// A token whose weight is below exp(-kReach) times the largest weight is never drawn, because its weight is
// less than half a unit of 2^-44. A search for top_k begins with the tokens whose logits are within kReach of
// the largest logit.
constexpr float kReach{32};

// The CTAs that work on one row: a cluster, or a single CTA.
struct Single {
  static constexpr int kCtas{1};
  static __device__ void sync() { __syncthreads(); }
  template <typename T>
  static __device__ T* of_cta(T* own, int) {  // address of *own in a CTA of the row; here the only CTA
    return own;
  }
};
#if __CUDA_ARCH__ >= 900
struct Cluster {
  static constexpr int kCtas{kClusterCtas};
  static __device__ void sync() { cooperative_groups::this_cluster().sync(); }
  template <typename T>
  static __device__ T* of_cta(T* own, int cta) {
    return cooperative_groups::this_cluster().map_shared_rank(own, cta);
  }
};
#else
using Cluster = Single;
#endif

template <bool in_clusters>
using CtasOf = std::conditional_t<in_clusters, Cluster, Single>;

// Limits a logit to finite floats or -infinity. NaN becomes -infinity, as on the host: fmaxf returns the
// operand that is a number.
__device__ float ordered(float logit) { return fminf(fmaxf(logit, -INFINITY), FLT_MAX); }

// Packs a token and its logit into one number: the likelier the token, the larger the number. Of two tokens
// with equal logits, the one with the lower id counts as likelier.
__device__ uint64_t pack(int token, float logit) {
  return uint64_t{key_of(logit)} << kTokenBits | static_cast<uint64_t>(kMaxVocab - 1 - token);
}
__device__ int token_of(uint64_t packed) {
  return kMaxVocab - 1 - static_cast<int>(packed & (kMaxVocab - 1));
}
// The least likely token that top_k or top_p keeps. All tokens with larger logits are kept, too. Of the
// tokens with the same logit, those with lower ids are kept.
struct Bound {
  uint64_t packed;
  float logit;

  __device__ explicit Bound(uint64_t packed)
      : packed(packed), logit(logit_of(static_cast<uint32_t>(packed >> kTokenBits))) {}
  __device__ bool admits(int token, float other) const {
    return other > logit || (other == logit && pack(token, other) >= packed);
  }
};

struct Likeliest {
  float logit{-INFINITY};
  int token{-1};

  // Takes the token if it is likelier than the current one. Call consider() in ascending order of token ids:
  // of equally likely tokens, the one with the lowest id stays.
  __device__ void consider(int other_token, float other) {
    if (!(other > logit)) return;
    logit = other;
    token = other_token;
  }
  __device__ uint64_t packed() const { return token < 0 ? 0 : pack(token, logit); }
};

// These reductions are over integers, so every order of CUB's operations gives the same result.
using Largest = ::cuda::maximum<uint64_t>;
using Sum = ::cuda::std::plus<uint64_t>;
using RowReduce = cub::BlockReduce<uint64_t, kThreads>;

// These functions map a token's logit to the amount that the token adds to a running sum: One (for top_k)
// returns 1, Weight (for top_p) returns the token's weight.
struct One {
  float largest;  // the largest logit
  __device__ uint64_t operator()(float) const { return 1; }
};
struct Weight {
  float largest;  // the largest logit
  float inverse;  // log2(e) / temperature
  float min_p;

  __device__ Weight(float largest, float temperature, float min_p)
      : largest(largest),
        inverse(fminf(1.4426950408889634f / temperature, FLT_MAX)),  // finite, because 0 * infinity is NaN
        min_p(min_p) {}
  __device__ uint64_t operator()(float logit) const {
    // exp2_of() flushes subnormal results to 0. These are below half a unit of 2^-44, so their weight is 0
    // anyway.
    const float weight = exp2_of(__fmul_rn(__fsub_rn(logit, largest), inverse));
    return weight < min_p ? 0 : __float2ull_rn(weight * static_cast<float>(uint64_t{1} << kWeightBits));
  }
};

// Sorts logits into kBins bins of equal width, by their distance from the largest logit. Bins of logits near
// the largest come first. The logits spread over many bins, so threads rarely add to the same bin at the same
// time, and their atomic additions rarely wait for each other.
struct DistanceBins {
  float largest, reach, scale;

  __device__ DistanceBins(float largest, float reach)
      : largest(largest), reach(reach), scale(fminf(kBins / reach, FLT_MAX)) {}
  __device__ int operator()(float logit) const {
    const float distance = largest - logit;
    return distance < reach ? min(static_cast<int>(distance * scale), kBins - 1) : kBins - 1;
  }
  // Returns the smallest key (key_of() of a logit) in the bins 0 to `bin`. A whole warp calls it; its lanes
  // search together, 5 bits of the key per iteration.
  __device__ uint32_t smallest_key(int bin) const {
    const int lane = threadIdx.x % 32;
    uint32_t smallest = 0;
#pragma unroll 1
    for (int shift = 27;; shift = max(shift - 5, 0)) {
      const uint32_t key = smallest + (static_cast<uint32_t>(lane + 1) << shift) - 1;
      const bool is_in = key >= key_of(largest) || (*this)(logit_of(key)) <= bin;
      smallest += static_cast<uint32_t>(__ffs(static_cast<int>(__ballot_sync(~0u, is_in))) - 1) << shift;
      if (shift == 0) return smallest;
    }
  }
};

struct Shared {
  // Double buffer that other CTAs of the cluster read. All CTAs pass a barrier before either half is filled
  // again.
  uint64_t exchanges[2][kBins];
  RowReduce::TempStorage reduce;
  uint64_t warps[kWarps];
  struct Place {
    int index;
    uint64_t before, amount, target;
  } place;
  uint64_t top[kMaxTop];
  int num_top;
};

// Finds the thread at which the running sum over the CTA's threads reaches the target: `share` (in units of
// 2^-64) of the total, plus `more`. Each thread passes an `amount`. If the total is less than the target,
// returns index -1, with the total as `before`. Not inlined, so that one copy stays in the instruction cache.
// find() scans each warp, then the sums of the warps: CUB's BlockScan adds up the sums of 32 warps in every
// thread, which takes as long as a pass over the logits (an estimate).
__device__ __noinline__ Shared::Place find(Shared& shared, uint64_t amount, uint64_t share, uint64_t more) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  using Scan = cub::WarpScan<uint64_t>;  // WarpScan uses shuffles, no shared memory
  Scan::TempStorage nothing;
  uint64_t up_to, before_warp, total;
  Scan(nothing).InclusiveSum(amount, up_to);
  if (lane == 31) shared.warps[warp] = up_to;
  __syncthreads();
  Scan(nothing).ExclusiveSum(shared.warps[lane], before_warp, total);
  const uint64_t target = __umul64hi(share, total) + more;
  up_to += __shfl_sync(~0u, before_warp, warp);
  if (up_to - amount < target && target <= up_to)
    shared.place = {static_cast<int>(threadIdx.x), up_to - amount, amount, target};
  if (threadIdx.x == 0 && total < target) shared.place = {-1, total, 0, target};
  __syncthreads();
  return shared.place;
}

// A row of logits. `Ctas`: Cluster or Single. All threads of the row's CTAs must call each function, unless
// the function's comment says that fewer call it.
template <typename Ctas>
class LogitRow {
 public:
  __device__ LogitRow(float* logits, int vocab, Shared& shared)
      : logits_(logits),
        vocab_(vocab),
        segment_((vocab + kSegments * 32 - 1) / (kSegments * 32) * 32),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        shared_(shared) {
    if (threadIdx.x == 0) shared_.num_top = 0;
  }

  // Returns the likeliest token, packed with its logit (pack()); 0 if no logit is above -infinity.
  __device__ uint64_t best() {
    Likeliest likeliest;
    for_tokens([&](int token, float logit, bool is_there) {
      if (is_there) likeliest.consider(token, logit);
    });
    return combine(likeliest.packed(), Largest());
  }

  // Returns the sum of all tokens' weights.
  __device__ uint64_t sum(const Weight& weight) {
    uint64_t sum = 0;
    for_tokens([&](int, float logit, bool is_there) { sum += is_there ? weight(logit) : 0; });
    return combine(sum, Sum());
  }

  // Searches among the tokens within `bound` for the smallest set of likeliest tokens whose amounts reach
  // the target: `share` (in units of 2^-64) of the sum of all amounts, plus `more`. Returns the bound of
  // this set. `reach`: range of logits that the first pass divides into bins.
  template <typename Amount>
  __device__ Bound keep(const Bound& bound, float reach, const Amount& amount, uint64_t share,
                        uint64_t more) {
    const DistanceBins distance_bin(amount.largest, reach);
    uint64_t low = bound.packed, high = pack(0, amount.largest);
    for (int shift = -1;;) {  // -1: the first pass, in which DistanceBins chooses the bins
      const Bound lowest(low), highest(high);
      const Place place = shift < 0 ? count(
                                          [&](int token, float logit, int& bin) {
                                            bin = distance_bin(logit);
                                            return lowest.admits(token, logit) ? amount(logit) : 0;
                                          },
                                          share, more)
                                    : count(
                                          [&](int token, float logit, int& bin) {
                                            if (logit < lowest.logit || logit > highest.logit)
                                              return uint64_t{0};
                                            const uint64_t packed = pack(token, logit);
                                            if (packed < low || packed > high) return uint64_t{0};
                                            bin = static_cast<int>((high - packed) >> shift);
                                            return amount(logit);
                                          },
                                          share, more);
      if (shift < 0) {
        low = max(low, uint64_t{distance_bin.smallest_key(place.index)} << kTokenBits);
        if (place.index > 0) high = (uint64_t{distance_bin.smallest_key(place.index - 1)} << kTokenBits) - 1;
      } else {
        high -= static_cast<uint64_t>(place.index) << shift;
        low = high - min(high - low, (uint64_t{1} << shift) - 1);
      }
      share = 0;
      more = place.target - place.before;
      // The search ends if all tokens of the bin are needed, or if the bin holds only one token. It holds one
      // token if the bin's amount is at most 1.5 times the smallest amount that a token in the bin can have.
      const Bound found(low);
      const uint64_t least = amount(found.logit);
      if (place.amount == more || place.amount <= least + least / 2 || low == high) return found;
      shift = max(0, 64 - kBinBits - __clzll(static_cast<long long>(high - low)));
    }
  }

  // Draws a token: the first one, by id, at which the running sum of weights within `bound` exceeds the
  // fraction `unit` (in units of 2^-64) of the total. Only the first CTA gets the result.
  __device__ int draw(const Bound& bound, const Weight& weight, uint64_t unit) {
    const auto amount = [&](int token, float logit) {
      return bound.admits(token, logit) ? weight(logit) : uint64_t{0};
    };
    uint64_t sum = 0;
    for_tokens([&](int token, float logit, bool is_there) { sum += is_there ? amount(token, logit) : 0; });
    cub::WarpReduce<uint64_t>::TempStorage nothing;  // empty: WarpReduce uses shuffles, no shared memory
    sum = cub::WarpReduce<uint64_t>(nothing).Sum(sum);
    uint64_t* const segments = next_exchange();
    if (lane_ == 0) segments[warp_] = sum;
    Ctas::sync();
    if (blockIdx.x > 0) return -1;
    const int segment_cta = static_cast<int>(threadIdx.x) / kWarps,
              segment_warp = static_cast<int>(threadIdx.x) % kWarps;
    sum = segment_cta < Ctas::kCtas ? Ctas::of_cta(segments, segment_cta)[segment_warp] : 0;
    const Place segment = find(shared_, sum, unit, 1);  // `more` = 1: the sum must exceed unit * total
    uint64_t target = segment.target - segment.before;
    const int end = min((segment.index + 1) * segment_, vocab_);
#pragma unroll 1
    for (int first = segment.index * segment_;; first += kThreads) {
      const int token = first + static_cast<int>(threadIdx.x);
      const Place place = find(shared_, token < end ? amount(token, logit(token)) : 0, 0, target);
      if (place.index >= 0) return first + place.index;
      target -= place.before;
    }
  }

  // Calls emit(rank, packed) for each of the tokens (at most kMaxTop) within `bound`. `rank` is 0 for the
  // likeliest token. Only threads of the first CTA call emit().
  template <typename Emit>
  __device__ void list_top(const Bound& bound, const Emit& emit) {
    for_tokens([&](int token, float logit, bool is_there) {
      if (!is_there || !bound.admits(token, logit)) return;
      Ctas::of_cta(shared_.top, 0)[atomicAdd(Ctas::of_cta(&shared_.num_top, 0), 1)] = pack(token, logit);
    });
    Ctas::sync();
    const int own = static_cast<int>(threadIdx.x), num_top = shared_.num_top;
    if (blockIdx.x > 0 || own >= num_top) return;
    int rank = 0;  // number of likelier tokens; the order of `top` is random
#pragma unroll 1
    for (int other = 0; other < num_top; ++other) rank += shared_.top[other] > shared_.top[own];
    emit(rank, shared_.top[own]);
  }

  // Applies the row's adjustments to its logits. `last`: token of row number row.follows of the step.
  __device__ void adjust(const SampleRow& row, int last) {
    Adjustment* const extra = row.adjustments + row.num_adjustments;
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); i < row.num_adjustments;
         i += Ctas::kCtas * kThreads) {
      Adjustment& adjustment = row.adjustments[i];
      const bool is_last = row.follows >= 0 && adjustment.token == last;
      if (is_last) extra->count = 0;
      change(row, adjustment, is_last ? max(adjustment.count, 0) + 1 : adjustment.count);
    }
    Ctas::sync();
    if (row.follows < 0) return;
    // `extra` is the entry after the row's adjustments. Its count is now 0 if one of these adjustments is for
    // the token `last`. If none is, `extra` itself is applied to that token.
    if (blockIdx.x == 0 && threadIdx.x == 0 && __ldcg(&extra->count) > 0) {
      extra->token = last;
      change(row, *extra, 1);
    }
    Ctas::sync();
  }
  // Restores the model's own logits, from which the first CTA then computes log-probabilities. Only the first
  // CTA calls it.
  __device__ void restore(const SampleRow& row) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < row.num_adjustments; i += kThreads)
      logits_[row.adjustments[i].token] = __ldcg(&row.adjustments[i].raw);
    const Adjustment* const extra = row.adjustments + row.num_adjustments;
    if (row.follows >= 0 && threadIdx.x == 0 && __ldcg(&extra->count) > 0)
      logits_[__ldcg(&extra->token)] = __ldcg(&extra->raw);
    __syncthreads();
  }
  // Sets the mask: tokens outside of it have logit -infinity from then on. If `mask` is null, all tokens keep
  // their logits.
  __device__ void allow_only(const uint32_t* mask) { mask_ = mask; }
  __device__ float logit(int token) const { return masked(token, __ldcg(logits_ + token)); }

 private:
  using Place = Shared::Place;

  // Saves the token's logit, and replaces it by the adjusted one. `count`: see Adjustment::count.
  __device__ void change(const SampleRow& row, Adjustment& adjustment, int count) {
    adjustment.raw = __ldcg(logits_ + adjustment.token);
    float logit = ordered(ordered(adjustment.raw) + adjustment.bias);
    if (count >= 0)
      logit = ordered(logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty);
    if (count > 0)  // each operation rounds its result (no FMA), as on the host
      logit = ordered(logit - __fadd_rn(__fmul_rn(row.frequency_penalty, static_cast<float>(count)),
                                        row.presence_penalty));
    logits_[adjustment.token] = logit;
  }
  static constexpr int kSegments{Ctas::kCtas * kWarps};  // each warp has a segment of the vocabulary
  static_assert(kSegments <= kBins);

  // Calls visit(token, logit, is_there) for the tokens of the warp's segment. All lanes call visit()
  // together, even past the segment's end, where is_there is false. Logits are read from L2, because other
  // CTAs may have changed them.
  template <typename Visit>
  __device__ void for_tokens(const Visit& visit) const {
    constexpr int kAhead{5};
    const int begin = (static_cast<int>(blockIdx.x) * kWarps + warp_) * segment_;
    const int end = min(begin + segment_, vocab_);
#pragma unroll 1
    for (int first = begin; first < end; first += 32 * kAhead) {
      float logits[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int token = first + 32 * a + lane_;
        logits[a] = token < end ? __ldcg(logits_ + token) : 0;
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int token = first + 32 * a + lane_;
        if (first + 32 * a < end) visit(token, masked(token, logits[a]), token < end);
      }
    }
  }

  // Returns -infinity for a token outside the mask. Segments begin at multiples of 32, so the lanes of a
  // warp read the same word of the mask.
  __device__ float masked(int token, float logit) const {
    const bool may_be = mask_ == nullptr || (__ldcg(mask_ + token / 32) >> (token % 32) & 1);
    return may_be ? ordered(logit) : -INFINITY;
  }

  __device__ uint64_t* next_exchange() { return shared_.exchanges[exchange_index_ ^= 1]; }

  // Combines one value from each thread of the row's CTAs by `op`. Every thread gets the result.
  template <typename Op>
  __device__ uint64_t combine(uint64_t own, const Op& op) {
    own = RowReduce(shared_.reduce).Reduce(own, op);  // valid only in the first thread
    uint64_t* const exchange = next_exchange();
    if (threadIdx.x == 0) exchange[0] = own;
    Ctas::sync();
    return reduce_neighbours<Ctas::kCtas>(*Ctas::of_cta(exchange, lane_ % Ctas::kCtas), op);
  }

  // Adds up the tokens' amounts in bins, and finds the bin in which the running sum reaches the target
  // (find()). amount_of(token, logit, bin) sets `bin`.
  template <typename AmountOf>
  __device__ Place count(const AmountOf& amount_of, uint64_t share, uint64_t more) {
    uint64_t* const bins = next_exchange();
    if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
    __syncthreads();
    for_tokens([&](int token, float logit, bool is_there) {
      int bin = 0;
      const uint64_t amount = is_there ? amount_of(token, logit, bin) : 0;
      if (amount > 0) add(bins + bin, amount);
    });
    Ctas::sync();
    uint64_t sum = 0;
    if (threadIdx.x < kBins)
#pragma unroll
      for (int cta = 0; cta < Ctas::kCtas; ++cta) sum += Ctas::of_cta(bins, cta)[threadIdx.x];
    return find(shared_, sum, share, more);
  }

  static __device__ void add(uint64_t* bin, uint64_t amount) {
    // GPUs have no instruction for 64-bit atomic addition in shared memory: atomicAdd() would compare and
    // swap in a loop. So this function makes two 32-bit additions, and adds the carry in the second.
    auto* const words = reinterpret_cast<unsigned*>(bin);
    const auto low = static_cast<unsigned>(amount);
    const unsigned before = atomicAdd(words, low);
    const unsigned high = static_cast<unsigned>(amount >> 32) + (before + low < before);
    if (high) atomicAdd(words + 1, high);
  }

  float* logits_;
  const uint32_t* mask_{nullptr};
  int vocab_, segment_, lane_, warp_;
  int exchange_index_{0};
  Shared& shared_;
};

// Returns whether a row needs only its likeliest token, or no token at all. best_kernel then completes the
// row.
__device__ bool has_only_likeliest(const SampleRow& row) {
  return row.temperature < 0 || (row.temperature == 0 && row.num_adjustments == 0 && row.follows < 0 &&
                                 row.num_logprobs < 0 && row.mask == nullptr);
}

// Returns the address at which the host reads the row's result, or null if results are not reported. Call it
// after wait_for_predecessor().
__device__ RowOutput* row_output(const SampleArgs& args) {
  if (!args.step) return nullptr;
  return reinterpret_cast<RowOutput*>(args.exchange.outputs[__ldcg(args.step) % 2] + 1) + args.first_output +
         blockIdx.y;
}

// Finds each row's likeliest token, packed with its logit in one word; the word is 0 if no logit is above
// -infinity. Completes greedy rows, which need nothing else.
__global__ void __launch_bounds__(kBestThreads)
    best_kernel(const __grid_constant__ SampleArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  using Reduce = cub::BlockReduce<uint64_t, kBestThreads>;
  __shared__ Reduce::TempStorage reduce;
  const SampleRow& row = args.rows[blockIdx.y];  // the step's input may be read before the wait (pdl.cuh)
  const float temperature = row.temperature;
  const bool is_greedy = has_only_likeliest(row);
  wait_for_predecessor(timestamps);
  let_successor_start();
  RowOutput* const output = row_output(args);
  const int cta = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const float* logits = args.logits + size_t{1} * blockIdx.y * args.vocab;
  Likeliest likeliest;
  for (int token = cta * kBestThreads + thread; token < args.vocab; token += kBestCtas * kBestThreads)
    likeliest.consider(token, ordered(logits[token]));
  // Only the first thread gets the result of a CUB reduction.
  const uint64_t best = Reduce(reduce).Reduce(likeliest.packed(), Largest());
  uint64_t* const bests = args.best + blockIdx.y * kBestCtas;
  if (thread == 0) bests[cta] = best;
  if (!is_last_of(args.tickets + blockIdx.y, kBestCtas)) return;
  const uint64_t best_of_all =
      Reduce(reduce).Reduce(thread < kBestCtas ? __ldcg(bests + thread) : 0, Largest());
  if (thread == 0) {
    bests[0] = best_of_all;
    if (!is_greedy) return;
    const int token = temperature < 0 || best_of_all == 0 ? -1 : token_of(best_of_all);
    args.results[blockIdx.y] = {token, 0, 0, {}};
    if (!output) return;
    output->result.token = token;
    output->result.logprob = 0;
    output->result.num_top = 0;
    output->end_ns = now_ns();
  }
}

// `in_clusters`: whether a cluster works on each row; if false, a single CTA does.
template <bool in_clusters>
__global__ void __launch_bounds__(kThreads)
    sample_kernel(const __grid_constant__ SampleArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ Shared shared;
  if (blockIdx.x >= CtasOf<in_clusters>::kCtas) return;
  const SampleRow params = args.rows[blockIdx.y];
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (has_only_likeliest(params)) return;
  RowOutput* const output = row_output(args);
  SampleResult& result = args.results[blockIdx.y];
  uint64_t best = args.best[blockIdx.y * kBestCtas];
  LogitRow<CtasOf<in_clusters>> row(args.logits + size_t{1} * blockIdx.y * args.vocab, args.vocab, shared);
  const bool has_logprobs = params.num_logprobs >= 0 && best != 0;
  const int num_top = min(params.num_logprobs, args.vocab);
  const Bound everything(pack(kMaxVocab - 1, -INFINITY));
  double log_sum = 0;
  const auto logprob = [&](float logit) { return static_cast<float>(double{logit} - log_sum); };
  if (has_logprobs) {
    const float largest = Bound(best).logit;
    const uint64_t sum = row.sum(Weight(largest, 1, 0));
    if (threadIdx.x < 32)  // only the first warp computes log-probabilities
      log_sum = double{largest} + log(static_cast<double>(sum)) - kWeightBits * M_LN2;
    if (num_top > 0)
      row.list_top(row.keep(everything, kReach, One{largest}, 0, static_cast<uint64_t>(num_top)),
                   [&](int rank, uint64_t packed) {
                     result.top[rank] = {token_of(packed), logprob(Bound(packed).logit)};
                   });
  }
  const bool has_changes = params.num_adjustments > 0 || params.follows >= 0;
  if (has_changes) row.adjust(params, params.follows >= 0 ? args.input[params.follows].token.id() : -1);
  row.allow_only(params.mask);
  if (has_changes || params.mask) best = row.best();
  int token = best == 0 ? -1 : token_of(best);
  if (best != 0 && params.temperature > 0) {
    const float largest = Bound(best).logit;
    const Weight weight(largest, params.temperature, params.min_p);
    Bound bound = everything;
    if (params.top_k > 0 && params.top_k < args.vocab)
      bound = row.keep(bound, kReach, One{largest}, 0, static_cast<uint64_t>(params.top_k));
    if (params.top_p != kAllTokens)
      bound = row.keep(bound, kReach * params.temperature, weight, params.top_p, 1);
    const int position = !params.position.is_known() ? args.input[params.position.row_before()].position + 1
                                                     : params.position.position();
    const uint64_t bits = random_bits(params.seed, static_cast<uint64_t>(position));
    token = row.draw(bound, weight, bits >> 11 << 11);  // the upper 53 bits, as random_unit() on the host
  }
  if (blockIdx.x == 0) {
    row.restore(params);
    if (threadIdx.x == 0) {
      const bool tells = token >= 0 && has_logprobs;
      result.token = token;
      result.logprob = tells ? logprob(row.logit(token)) : 0;
      result.num_top = tells ? num_top : 0;
    }
    __syncthreads();
    constexpr int kResultWords{sizeof(SampleResult) / sizeof(uint32_t)};
    if (output && threadIdx.x < kResultWords)
      reinterpret_cast<uint32_t*>(&output->result)[threadIdx.x] =
          reinterpret_cast<const uint32_t*>(&result)[threadIdx.x];
    if (output && threadIdx.x == 0) output->end_ns = now_ns();
  }
  CtasOf<in_clusters>::sync();  // no CTA may end while others still read its shared memory
}

}  // namespace

void prepare_sample() {
  prefer_shared_memory(best_kernel);
  prefer_shared_memory(sample_kernel<true>);
  prefer_shared_memory(sample_kernel<false>);
}

void sample(const LaunchContext& gpu, int num_rows, const SampleArgs& args) {
  const auto rows = static_cast<unsigned>(num_rows);
  launch(gpu, {Operation::kSample, "best"}, best_kernel, {dim3(kBestCtas, rows), kBestThreads}, args);
  if (args.are_greedy) return;
  // Clusters are faster than single CTAs if all clusters are resident at once. Otherwise each further wave of
  // clusters costs its latency again, so a single CTA handles each row (docs/decisions/0026).
  if (num_rows * kClusterCtas <= kResidentCtas * gpu.target.num_multiprocessors)
    launch(gpu, {Operation::kSample, "sample"}, sample_kernel<true>,
           {dim3(kClusterCtas, rows), kThreads, 0, kClusterCtas}, args);
  else
    launch(gpu, {Operation::kSample, "sample"}, sample_kernel<false>, {dim3(1, rows), kThreads}, args);
}

}  // namespace nibble::cuda
