#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {
// Throws after a CUDA error: BackendLost if every later call of this process would fail too (an illegal
// address, a failed launch, uncorrectable memory, a lost device), otherwise InputError. `what` is what
// failed.
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
