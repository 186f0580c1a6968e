// Which experts a token goes to.
#pragma once

#include "backend/cuda/kernels.h"
#include "backend/cuda/ordered.cuh"

namespace nibble::cuda {

// Experts from the largest logit on, ties to the lower expert. Made and asked by a whole warp; every lane gets the answer.
class Ranking {
 public:
  struct Place {
    int expert;
    float logit;
  };

  template <typename LogitAt>
  __device__ Ranking(int num_experts, const LogitAt& logit_at) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) keys_[i] = first() + i < num_experts ? key_of(logit_at(first() + i)) : 0;
  }

  __device__ Place next() {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kMine; ++i) best = max(best, keys_[i]);
    best = __reduce_max_sync(~0u, best);
    int mine = kMine;
#pragma unroll
    for (int i = kMine - 1; i >= 0; --i)
      if (keys_[i] == best) mine = i;
    const int winner = __ffs(static_cast<int>(__ballot_sync(~0u, mine < kMine))) - 1;
    const int expert = __shfl_sync(~0u, first() + mine, winner);
#pragma unroll
    for (int i = 0; i < kMine; ++i)
      if (first() + i == expert) keys_[i] = 0;
    return {expert, logit_of(best)};
  }

 private:
  static constexpr int kMine{kMaxExperts / 32};  // experts of a lane
  static __device__ int first() { return static_cast<int>(threadIdx.x) % 32 * kMine; }

  uint32_t keys_[kMine];  // 0: none, or taken
};

// The softmax over the chosen: lane k has the logit of place k, -infinity beyond the last, and gets its weight.
__device__ inline float weight_of_place(float logit) {
  static_assert(kMaxExpertsPerToken == 8);
  const float weight = expf(logit - __shfl_sync(~0u, logit, 0));
  float sum = weight;
#pragma unroll
  for (int distance = 1; distance < kMaxExpertsPerToken; distance *= 2)
    sum += __shfl_xor_sync(~0u, sum, distance);
  return weight / sum;
}

}  // namespace nibble::cuda
