// Checks calls of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {

// Checks the result of a CUDA runtime call. Throws BackendLost after an error that every later call of this
// process would return too (an illegal address, a failed launch, uncorrectable memory, a lost device),
// otherwise InputError. Both name what was attempted.
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
