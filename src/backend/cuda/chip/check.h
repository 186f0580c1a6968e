#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {
// Throws if `error` is not cudaSuccess: BackendLost if all later CUDA calls of this process would fail too
// (as after an illegal address), else InputError. `what` completes the message "the GPU failed while ...".
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
