// Programmatic dependent launch (griddepcontrol). Before sm_90 both functions do nothing.
#pragma once

namespace nibble::cuda {

// Waits until the launches before this one have ended; their writes are then visible.
__device__ inline void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next launch to start once every CTA of this one has called this or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace nibble::cuda
