// Dynamic tile scheduling: instead of an equal share of a matrix, a CTA takes the next strips whenever it is
// ready for more. SMs do not all read memory at the same speed, so with equal shares a long launch would wait
// for the slowest SM (docs/decisions/0019).
//
// A hand is one or two consecutive strips, which a CTA takes together. A CTA numbers its own hands from 0
// (hand k below); a hand also has an index among all hands of the matrix. Most hands are fixed: they follow
// from the CTA's index, and are contiguous in memory. For each of the other hands, a counter in memory gives
// the next hand of the matrix that no CTA has taken. The counter's answer takes longer to arrive than weights
// do, so the first warp that reaches hand k requests hand k + kHandsAhead. All warps find the answer in
// shared memory.
#pragma once

#include <algorithm>
#include <climits>

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

// Returns the number of strips of a hand. In gpt-oss a hand has 92 KB, both in BF16 and in E4M3. An SM of an
// H200 reads 92 KB in 2.7 us.
constexpr int hand_strips(Layout layout) { return layout == Layout::kBf16 ? 1 : 2; }

struct DealtMatrix {
  Strips hand;     // describes one hand (one or two strips), which UnitStream treats as a matrix
  int num_strips;  // number of strips of the whole matrix
  int num_fixed;   // number of hands that each CTA gets by its index, without the counter
};

// A CTA requests a hand (one or two strips) from the counter when it takes the hand that is this number of
// hands earlier.
inline constexpr int kHandsAhead{2};

// Divides a matrix among CTAs. The hands that a CTA gets without the counter are 0.7 of an equal share,
// because the slowest SM of an H200 reads at 0.8 of the mean speed.
inline DealtMatrix dealt(const Strips& weights, unsigned num_ctas) {
  constexpr double kFixed{0.7};
  DealtMatrix to{weights, weights.num_strips, 0};
  to.hand.num_strips = hand_strips(weights.layout);
  to.hand.by_strips = Divisor(static_cast<unsigned>(to.hand.num_strips));
  const double share = static_cast<double>(weights.num_strips) / (num_ctas * to.hand.num_strips);
  to.num_fixed = std::max(kHandsAhead, static_cast<int>(kFixed * share));
  return to;
}

struct DealTable {
  // Number of entries for the counter's answers; entries are reused in turn. Many more would not fit in the 1
  // KB that is left for static arrays (target.h).
  static constexpr int kRoom{96};

  // The counter's answers, one word per hand (one or two strips). The upper half of a word is the hand's
  // number in the CTA, plus 1; the lower half is the hand's index in the matrix.
  uint64_t hands[kRoom];
  int num_requested;
  int num_strips;  // number of strips that the CTA gets in all; INT_MAX until it is known
};

template <Layout layout>
class DealtHands {
 public:
  static constexpr bool kMayEnd{true};
  struct Hand {
    const uint8_t* data;
    int num_strips;  // fewer than kStrips at the end of the matrix, 0 past the end
  };

  // `next`: the counter in global memory, which holds the number of hands taken from it. The constructor
  // synchronizes the CTA.
  __device__ DealtHands(const DealtMatrix& matrix, DealTable& table, unsigned* next)
      : matrix_(matrix), table_(table), next_(next) {
    for (int i = static_cast<int>(threadIdx.x); i < DealTable::kRoom; i += static_cast<int>(blockDim.x))
      table.hands[i] = 0;
    if (threadIdx.x == 0) {
      table.num_requested = matrix.num_fixed;
      table.num_strips = INT_MAX;
    }
    __syncthreads();
  }

  // Returns the CTA's hand number k (one or two strips), and requests its hands up to number k + kHandsAhead
  // from the counter. Whole warps must call it.
  __device__ Hand operator()(int k) const {
    int number = 0;
    if (threadIdx.x % 32 == 0) {
      if (const int last = k + kHandsAhead; last >= matrix_.num_fixed)
        for (int n = atomicMax(&table_.num_requested, last + 1); n <= last; ++n) request(n);
      number = number_of(k);
    }
    number = __shfl_sync(~0u, number, 0);
    const int first = number * kStrips, num = min(max(matrix_.num_strips - first, 0), kStrips);
    if (num < kStrips && threadIdx.x % 32 == 0) atomicMin(&table_.num_strips, k * kStrips + num);
    return {matrix_.hand.data + size_t{1} * first * matrix_.hand.strip_bytes, num};
  }

  // Returns the largest number of strips that a CTA may process between two synchronizations. During that
  // time the table must hold the counter's answers for these strips, for later strips of which `units` units
  // (segments of strips) are already in the warps' rings, and for hands that are requested ahead.
  static __host__ __device__ constexpr int most_between_syncs(int units, int num_segments) {
    return (DealTable::kRoom - kHandsAhead - 2) * kStrips - (units + num_segments - 1) / num_segments;
  }
  // Returns how many of the CTA's strips [from, from + count) exist. Call it after all warps have processed
  // these strips.
  __device__ int num_from(int from, int count) const { return min(max(table_.num_strips - from, 0), count); }
  // Returns the index in the matrix of the CTA's strip k, which must exist.
  __device__ int strip_of(int k) const { return number_of(k / kStrips) * kStrips + k % kStrips; }

 private:
  static constexpr int kStrips{hand_strips(layout)};

  static __device__ uint64_t tag(int k) { return static_cast<uint64_t>(k + 1); }
  __device__ uint64_t* answer_of(int k) const { return &table_.hands[k % DealTable::kRoom]; }
  // Requests the CTA's hand number k from the counter. Waits for the answer for hand k - 1 first, so that a
  // CTA's hands ascend, and hands past the end of the matrix come last.
  __device__ void request(int k) const {
    number_of(k - 1);
    const unsigned number = static_cast<unsigned>(matrix_.num_fixed) * gridDim.x + atomicAdd(next_, 1u);
    store_relaxed_in_cta(answer_of(k), tag(k) << 32 | number);
  }
  // Waits for the counter's answer for the CTA's hand number k, and returns the index of this hand in the
  // matrix.
  __device__ int number_of(int k) const {
    if (k < matrix_.num_fixed) return static_cast<int>(blockIdx.x) * matrix_.num_fixed + k;
    uint64_t answer;
    do answer = load_relaxed_in_cta(answer_of(k));
    while (answer >> 32 != tag(k));
    return static_cast<int>(answer & 0xFFFFFFFFu);
  }

  const DealtMatrix& matrix_;
  DealTable& table_;
  unsigned* const next_;
};

}  // namespace nibble::cuda
