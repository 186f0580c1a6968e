#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {
// Throws unless `error` is cudaSuccess: BackendLost if every later call of this process would also fail
// (after an illegal address, for example), otherwise InputError. `what`: the operation that failed.
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
