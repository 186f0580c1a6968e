// Finds the last of several CTAs to finish. That CTA then continues with the results of all of them.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {
// Returns true to all threads of the last of `count` CTAs that call it. In that CTA, loads that bypass L1
// (__ldcg) then see everything that the CTAs stored before their calls. *ticket must be 0 at first, and is 0
// again after the last call. Only one thread per CTA fences, after a __syncthreads(): the fences of an SM
// wait for each other, so one per warp would take longer.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

}  // namespace nibble::cuda
