// Finds the last of several CTAs to finish, which then continues with the results of all of them.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {
// Returns true to all threads of the last of `count` CTAs that call it. That CTA's loads past L1 (__ldcg) see
// everything that the CTAs stored before the call. The ticket is 0 before and after. Only one thread per CTA
// fences, after a __syncthreads(): the fences of an SM wait for each other, so one per warp would cost more.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

}  // namespace nibble::cuda
