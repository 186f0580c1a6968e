// The shared memory that kernels were allowed before their launch (pipeline/pdl.cuh). A GPU refuses a launch
// that takes more. Neither a GPU nor these functions refuse a kernel whose split of L1 and shared memory is
// not the step's: such a kernel only makes the step slower.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::emulated {

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// Returns cudaSuccess if the kernel may take the shared memory of this launch; else the error of the launch.
cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config);

}  // namespace nibble::emulated
