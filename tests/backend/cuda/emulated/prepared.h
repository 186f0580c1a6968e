// The shared memory that kernels were allowed before their launch (pipeline/pdl.cuh). A GPU refuses a launch
// that takes more. Neither a GPU nor these functions refuse a kernel that divides memory between L1 and
// shared memory differently from the other kernels of its step: such a kernel only makes the step slower.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::emulated {

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// Returns cudaSuccess if the kernel may take the shared memory of this launch; else the error of the launch.
cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config);

}  // namespace nibble::emulated
