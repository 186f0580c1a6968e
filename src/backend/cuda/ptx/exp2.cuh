// Computes 2^x on the special function unit, with an error of at most 2 ulp. Results below 2^-126 become 0.
#pragma once

namespace nibble::cuda {

__device__ inline float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace nibble::cuda
