#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {
// Throws after a CUDA error: BackendLost if every later call of this process would fail too (after an illegal
// address, for example, or a lost device), otherwise InputError. `what` names what failed.
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
