// Lets the last of several CTAs to finish learn that it is the last, and continue with the results of all of
// them.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {

// Returns true in the last of `count` CTAs that call it; that CTA's loads past L1 (__ldcg) then see all
// earlier stores of every thread of every CTA. All threads of a CTA call it. The ticket is 0 before and
// after.
//
// One thread fences for its CTA: it has synchronised with the other threads, so its release includes their
// stores. A fence waits for all memory accesses that its warp has in flight, and the fences of an SM wait for
// each other, so a __threadfence() in each warp would multiply the cost.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

}  // namespace nibble::cuda
