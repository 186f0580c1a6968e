// Reductions over the four lanes that each hold 8 elements of a block of 32: the block's largest magnitude,
// and the sums of its squared errors in MXFP4 (quantise_block.h).
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/ptx/quantise_block.h"

namespace nibble::cuda {

// Returns, in all four lanes of the block, the bits of the block's largest magnitude.
__device__ inline uint32_t block_largest(const float (&x)[8]) {
  uint32_t largest = largest_magnitude(x);
  largest = max(largest, __shfl_xor_sync(~0u, largest, 1));
  return max(largest, __shfl_xor_sync(~0u, largest, 2));
}

// Returns the sums of the block's squared errors, for both scales (Mxfp4Errors). All four lanes get the same
// bits, because every lane computes (lane 0 + lane 1) + (lane 2 + lane 3).
__device__ inline Mxfp4Errors block_errors(const float (&x)[8], uint32_t largest) {
  Mxfp4Errors errors = mxfp4_errors(x, largest);
  for (int step = 1; step <= 2; step *= 2) {
    errors.of_scale += __shfl_xor_sync(~0u, errors.of_scale, step);
    errors.of_twice += __shfl_xor_sync(~0u, errors.of_twice, step);
  }
  return errors;
}

}  // namespace nibble::cuda
