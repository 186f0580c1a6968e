// The shared memory that kernels were allowed before their launch (pipeline/pdl.cuh). A GPU refuses a launch
// that takes more. A kernel without the step's split of L1 and shared memory is not refused, by a GPU or
// here: it only makes the step slower.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::emulated {

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// What a launch returns; cudaSuccess where the kernel may take this much.
cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config);

}  // namespace nibble::emulated
