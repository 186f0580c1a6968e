// Special registers that describe a kernel's launch, and programmatic dependent launch.
#pragma once

#include <cstdint>

namespace nibble::cuda {

__device__ inline unsigned long long now_ns() {  // returns the time of a clock that all SMs share
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

// Returns threadIdx.x from a register. The compiler would read the special register anew at every use.
__device__ inline unsigned thread_of_cta() {
  unsigned thread;
  asm volatile("mov.u32 %0, %tid.x;" : "=r"(thread));
  return thread;
}

#define NIBBLE_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
__device__ inline uint32_t dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

// Programmatic dependent launch (griddepcontrol). The two functions below do nothing before sm_90.

// Waits until the previous launch has ended. If all launches call this function, all earlier launches have
// then ended, and their writes are visible.
__device__ inline void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next launch to start once every CTA of this launch has called this function or has ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace nibble::cuda
