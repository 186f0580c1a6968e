// Which experts a token goes to.
#pragma once

#include "backend/cuda/kernels.h"

namespace nibble::cuda {

// The K largest logits, ties to the lower expert, and the softmax over them. Made by a whole warp; every lane has all of it.
struct Choice {
  int experts[kMaxExpertsPerToken];
  float weights[kMaxExpertsPerToken];

  __device__ Choice(const float* logits, int num_experts, int experts_per_token) {
    constexpr int kMine{kMaxExperts / 32};
    const int lane = threadIdx.x % 32;
    uint32_t keys[kMine];  // 0: none, or taken
#pragma unroll
    for (int i = 0; i < kMine; ++i)
      keys[i] = 32 * i + lane < num_experts ? key_of(__ldcg(logits + 32 * i + lane)) : 0;
    float largest = 0, sum = 0;
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k) {
      experts[k] = 0;
      weights[k] = 0;
      if (k >= experts_per_token) continue;
      uint32_t best = 0;
#pragma unroll
      for (int i = 0; i < kMine; ++i) best = max(best, keys[i]);
      best = __reduce_max_sync(~0u, best);
      int mine = kMaxExperts;
#pragma unroll
      for (int i = kMine - 1; i >= 0; --i)
        if (keys[i] == best) mine = 32 * i + lane;
      experts[k] = static_cast<int>(__reduce_min_sync(~0u, static_cast<unsigned>(mine)));
#pragma unroll
      for (int i = 0; i < kMine; ++i)
        if (32 * i + lane == experts[k]) keys[i] = 0;
      const float logit = logit_of(best);
      if (k == 0) largest = logit;
      weights[k] = expf(logit - largest);
      sum += weights[k];
    }
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k) weights[k] /= sum;
  }

 private:
  // Unsigned in the order of the floats, and above 0; -0 is +0, so that a tie is a tie.
  static __device__ uint32_t key_of(float logit) {
    const uint32_t bits = __float_as_uint(logit + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
  static __device__ float logit_of(uint32_t key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
  }
};

}  // namespace nibble::cuda
