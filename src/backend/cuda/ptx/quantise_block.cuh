// Reductions over the four lanes that hold 8 elements each of a block of 32: the block's largest magnitude,
// and its errors in MXFP4 (quantise_block.h).
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/ptx/quantise_block.h"

namespace nibble::cuda {

// Returns, in all four lanes, the bits of the block's largest magnitude.
__device__ inline uint32_t block_largest(const float (&x)[8]) {
  uint32_t largest = largest_magnitude(x);
  largest = max(largest, __shfl_xor_sync(~0u, largest, 1));
  return max(largest, __shfl_xor_sync(~0u, largest, 2));
}

// Returns the block's errors. All four lanes get the same bits, because the sums are (lane 0 + lane 1) +
// (lane 2 + lane 3) in every lane.
__device__ inline Mxfp4Errors block_errors(const float (&x)[8], uint32_t largest) {
  Mxfp4Errors errors = mxfp4_errors(x, largest);
  for (int step = 1; step <= 2; step *= 2) {
    errors.of_scale += __shfl_xor_sync(~0u, errors.of_scale, step);
    errors.of_twice += __shfl_xor_sync(~0u, errors.of_twice, step);
  }
  return errors;
}

}  // namespace nibble::cuda
