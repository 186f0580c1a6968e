#pragma once

#include <cuda_runtime_api.h>

namespace nibble::cuda {
// Throws if `error` is an error: BackendLost if every later call of this process would fail too (for example
// after an illegal address, or if the device is lost), otherwise InputError. `what`: the operation that
// failed.
void check(cudaError_t error, const char* what);

}  // namespace nibble::cuda
