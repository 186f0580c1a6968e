// Maps floats to unsigned integers that compare in the same order.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// Returns the logit's key: the larger the logit, the larger the key. A key is never 0, so callers can use 0
// for an absent logit. -0 and +0 have the same key.
__device__ inline uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline float logit_of(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

}  // namespace nibble::cuda
