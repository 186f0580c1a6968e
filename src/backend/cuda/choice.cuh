// The router's choice: the experts with the largest logits, and the softmax over them.
#pragma once

#include "backend/cuda/kernels.h"
#include "backend/cuda/ordered.cuh"
#include "backend/cuda/warp_reduce.cuh"

namespace nibble::cuda {

// Yields experts by descending logit, ties to the lower expert. All lanes of a warp construct and call it together,
// and all get the answer.
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

  __device__ Place next() {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) best = max(best, keys_[i]);
    best = __reduce_max_sync(~0u, best);  // one instruction
    int own = kExpertsPerLane;
#pragma unroll
    for (int i = kExpertsPerLane - 1; i >= 0; --i)
      if (keys_[i] == best) own = i;
    // The lowest lane that has it.
    const int winner = __ffs(static_cast<int>(__ballot_sync(~0u, own < kExpertsPerLane))) - 1;
    const int expert = __shfl_sync(~0u, first() + own, winner);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i)
      if (first() + i == expert) keys_[i] = 0;
    return {expert, logit_of(best)};
  }

 private:
  static constexpr int kExpertsPerLane{kMaxExperts / 32};
  static __device__ int first() { return static_cast<int>(threadIdx.x) % 32 * kExpertsPerLane; }

  uint32_t keys_[kExpertsPerLane];  // 0: no expert, or one that was already chosen
};

// Softmax over the chosen experts: lane k passes the logit of place k (-infinity beyond the last place) and gets that
// expert's weight.
__device__ inline float weight_of_place(float logit) {
  static_assert(kMaxExpertsPerToken == 8);
  const float weight = expf(logit - __shfl_sync(~0u, logit, 0));
  return weight / reduce_neighbours<kMaxExpertsPerToken>(weight, cooperative_groups::plus<float>());
}

}  // namespace nibble::cuda
