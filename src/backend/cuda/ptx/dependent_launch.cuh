// Programmatic dependent launch (griddepcontrol): a kernel that begins while the one before it still runs. Before sm_90 there is none,
// and both do nothing.
#pragma once

namespace nibble::cuda {

// Waits until the launches before this one have ended; what they wrote is then visible.
__device__ inline void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next launch begin, as soon as all CTAs of this one have called it or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace nibble::cuda
