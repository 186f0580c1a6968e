// Special registers.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// The device's clock, which all multiprocessors share.
__device__ inline unsigned long long now_ns() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

// The same as threadIdx.x, read where this stands and kept: the compiler reads threadIdx.x again wherever it is named.
__device__ inline unsigned thread_of_cta() {
  unsigned thread;
  asm volatile("mov.u32 %0, %tid.x;" : "=r"(thread));
  return thread;
}

// The dynamic shared memory that the launch gave each CTA: an array of it, and how much it is.
#define NIBBLE_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
__device__ inline uint32_t dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

}  // namespace nibble::cuda
