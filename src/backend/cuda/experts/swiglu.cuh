// SwiGLU as gpt-oss defines it: `gate` is limited to at most `limit`, `linear` is clamped to +- `limit`, and
// 1 is added to `linear`.
#pragma once

#include "backend/cuda/ptx/exp2.cuh"

namespace nibble::cuda {

__device__ inline float swiglu(float gate, float linear, float limit) {
  constexpr float kAlpha{1.702f}, kLog2E{1.4426950408889634f};
  gate = fminf(gate, limit);
  return __fdividef(gate, 1 + exp2_of(-kAlpha * kLog2E * gate)) * (fminf(fmaxf(linear, -limit), limit) + 1);
}

}  // namespace nibble::cuda
