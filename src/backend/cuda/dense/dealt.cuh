// Dynamic tile scheduling: CTAs take strips of a matrix whenever they are ready, instead of equal shares. The
// multiprocessors of a chip do not read memory at the same speed: with equal shares, a long launch would end
// only when the slowest multiprocessor is done (docs/decisions/0019).
//
// The unit of scheduling is a hand: one or two consecutive strips. A CTA numbers its hands from 0. Most of
// its hands are fixed by the CTA's index, and contiguous in memory; each later hand is the next free hand of
// the launch, by a counter in memory. The counter takes longer to answer than weights take to arrive. So the
// warp that first gets to hand k requests hand k + kHandsAhead, and all warps find the answer in shared
// memory.
#pragma once

#include <algorithm>
#include <climits>

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

// Returns the strips of a hand. A hand has the same size in both layouts (BF16 and E4M3), 92 KB for gpt-oss,
// which a multiprocessor reads in 2.7 us.
constexpr int hand_strips(Layout layout) { return layout == Layout::kBf16 ? 1 : 2; }

struct DealtMatrix {
  Strips hand;     // one hand, which the stream handles like a matrix
  int num_strips;  // of the whole matrix
  int num_fixed;   // fixed hands of each CTA
};

inline constexpr int kHandsAhead{2};

// The slowest multiprocessor of an H200 reads at 0.8 of the mean speed, so less than that is fixed.
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
  // Slots for the counter's answers, used in turn. Many more would take a kernel's static arrays past 1 KB
  // (target.h).
  static constexpr int kRoom{96};

  // Upper half: the number of the CTA's hand, plus 1. Lower half: the hand's number in the matrix.
  uint64_t hands[kRoom];
  int num_requested;
  int num_strips;  // number of the CTA's strips, once it is known
};

template <Layout layout>
class DealtHands {
 public:
  static constexpr bool kMayEnd{true};
  struct Hand {
    const uint8_t* data;
    int num_strips;  // strips of the hand: fewer in the matrix's last hand, 0 after it
  };

  // `next`: counts the hands that were requested, 0 at first; the CTAs of a launch share it. Synchronizes the
  // CTA.
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

  // Returns the CTA's hand k. Called by whole warps.
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

  // Returns the most strips that a CTA may process between two synchronizations. The table must still hold
  // their answers when warps have `units` of later strips in their rings and have requested more.
  static __host__ __device__ constexpr int most_between_syncs(int units, int num_segments) {
    return (DealTable::kRoom - kHandsAhead - 2) * kStrips - (units + num_segments - 1) / num_segments;
  }
  // Returns how many of the CTA's strips [from, from + count) exist. Called after all warps have processed
  // these strips and have synchronized.
  __device__ int num_from(int from, int count) const { return min(max(table_.num_strips - from, 0), count); }
  // Returns the number that the CTA's strip k has in the matrix. The strip must exist.
  __device__ int strip_of(int k) const { return number_of(k / kStrips) * kStrips + k % kStrips; }

 private:
  static constexpr int kStrips{hand_strips(layout)};

  static __device__ uint64_t tag(int k) { return static_cast<uint64_t>(k + 1); }
  __device__ uint64_t* answer_of(int k) const { return &table_.hands[k % DealTable::kRoom]; }
  // Requests hand k. Waits for the answer for hand k - 1 first, so that answers are in order: after the first
  // hand past the matrix's end, all later hands are past it too.
  __device__ void request(int k) const {
    number_of(k - 1);
    const unsigned number = static_cast<unsigned>(matrix_.num_fixed) * gridDim.x + atomicAdd(next_, 1u);
    store_relaxed_in_cta(answer_of(k), tag(k) << 32 | number);
  }
  // Returns the number of hand k in the matrix. Waits for the answer.
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
