// The shared memory that kernels were allowed before their launch (device/pdl.cuh). A GPU refuses a launch that takes
// more. It does not refuse a kernel of a step without the step's split of L1 and shared memory, which only makes the
// step slower, and neither does this.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::emulated {

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// What a launch returns; cudaSuccess where the kernel may take this much.
cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config);

}  // namespace nibble::emulated
