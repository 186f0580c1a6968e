// The attributes that kernels were given before their launch. A GPU refuses one that takes more shared memory than it
// was allowed; and here a step's kernel must also have the step's split of L1 and shared memory (device/pdl.cuh), whose
// absence a GPU would answer with a slower step alone.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::emulated {

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// What a launch returns for want of attributes; cudaSuccess where it has all.
cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config);

}  // namespace nibble::emulated
