// How the last of several CTAs to end its part of some work finds out that it is the last, and goes on with what all of them wrote.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {

// True in the last of `count` CTAs that come here, whose loads past L1 (__ldcg) then find all that any thread of any of them stored before. All
// threads of a CTA call it. The ticket is 0 before and after.
//
// One thread fences for its CTA: it has synchronised with the others, and what it releases includes what they stored. A fence waits for
// what its warp has under way, and those of a multiprocessor wait for each other, so a __threadfence() in each warp costs as many times more.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

}  // namespace nibble::cuda
