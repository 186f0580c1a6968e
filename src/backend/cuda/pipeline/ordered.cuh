// Maps floats to unsigned integers that compare in the same order.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// A key is never 0. -0 has the key of +0, so the two compare as equal.
__device__ inline uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline float logit_of(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

}  // namespace nibble::cuda
