// Which experts a token goes to.
#pragma once

#include "backend/cuda/kernels.h"

namespace nibble::cuda {

// The K largest logits, ties to the lower expert. Made by a whole warp; every lane has all of it.
struct Choice {
  int experts[kMaxExpertsPerToken];
  float logits[kMaxExpertsPerToken];  // -infinity beyond K

  template <typename LogitAt>
  __device__ Choice(int num_experts, int experts_per_token, const LogitAt& logit_at) {
    constexpr int kMine{kMaxExperts / 32};
    const int lane = threadIdx.x % 32;
    uint32_t keys[kMine];  // 0: none, or taken
#pragma unroll
    for (int i = 0; i < kMine; ++i)
      keys[i] = 32 * i + lane < num_experts ? key_of(logit_at(32 * i + lane)) : 0;
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k) {
      experts[k] = 0;
      logits[k] = -INFINITY;
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
      logits[k] = logit_of(best);
    }
  }
  // Of the softmax over the chosen.
  __device__ float weight(int slot) const {
    float sum = 0, own = 0;
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k) {
      const float weight = expf(logits[k] - logits[0]);
      sum += weight;
      if (k == slot) own = weight;
    }
    return own / sum;
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
