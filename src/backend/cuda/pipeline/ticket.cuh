// The last of several CTAs to finish learns that it is the last, and continues with the results of all.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {
// True in the last of `count` CTAs that call it, with all their threads; its loads past L1 (__ldcg) then see
// all earlier stores of all CTAs. The ticket is 0 before and after. One thread fences for its CTA, with which
// it has synchronised: an SM's fences wait for each other, so one per warp would multiply the cost.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

}  // namespace nibble::cuda
