// Computes 2^x on the special function unit, within 2 ulp; results below 2^-126 are 0.
#pragma once

namespace nibble::cuda {

__device__ inline float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace nibble::cuda
