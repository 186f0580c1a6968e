// The router's choice for a token: the experts with the largest logits, and the softmax of their logits.
#pragma once

#include "backend/cuda/pipeline/ordered.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// Gives a token's experts one by one, by descending logit; of experts with equal logits, the one with the
// lower number comes first. A whole warp must construct a Ranking and call next().
class Ranking {
 public:
  struct Place {
    int expert;
    float logit;
  };

  template <typename LogitAt>
  __device__ Ranking(int num_experts, const LogitAt& logit_at) {
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i)
      keys_[i] = first() + i < num_experts ? key_of(logit_at(first() + i)) : 0;
  }

  // Returns the next expert. The lane that holds the expert removes it before the shuffle, so that the next
  // call need not wait for the shuffle's result.
  __device__ Place next() {
    uint32_t of_lane = 0;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) of_lane = max(of_lane, keys_[i]);
    int own = 0;
#pragma unroll
    for (int i = kExpertsPerLane - 1; i >= 0; --i)
      if (keys_[i] == of_lane) own = i;
    const uint32_t best = __reduce_max_sync(~0u, of_lane);  // a single instruction of sm_80 and later
    const unsigned have = __ballot_sync(~0u, of_lane == best), before = (1u << threadIdx.x % 32) - 1;
    if (of_lane == best && (have & before) == 0) {  // the lowest lane with the best expert
#pragma unroll
      for (int i = 0; i < kExpertsPerLane; ++i)
        if (own == i) keys_[i] = 0;
    }
    return {__shfl_sync(~0u, first() + own, __ffs(static_cast<int>(have)) - 1), logit_of(best)};
  }

 private:
  static constexpr int kExpertsPerLane{kMaxExperts / 32};
  static __device__ int first() { return static_cast<int>(threadIdx.x) % 32 * kExpertsPerLane; }

  uint32_t keys_[kExpertsPerLane];  // logits as sortable integers; 0: no expert, or already chosen
};

// Returns the weight of a chosen expert: the softmax of the chosen experts' logits. Lane k (k < K) passes the
// logit of the expert that Ranking gave as number k; the other lanes pass -infinity. A whole warp must call
// it.
__device__ inline float weight_of_place(float logit) {
  static_assert(kMaxExpertsPerToken == 8);
  const float weight = expf(logit - __shfl_sync(~0u, logit, 0));
  return weight / reduce_neighbours<kMaxExpertsPerToken>(weight, cooperative_groups::plus<float>());
}

}  // namespace nibble::cuda
