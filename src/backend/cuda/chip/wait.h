// Waits for a GPU with a timeout, so that a hanging GPU does not block its host forever.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace nibble::cuda {

inline constexpr double kPatienceSeconds{120};

// Polls until query() no longer returns cudaErrorNotReady, and checks the result. Now and then calls
// `between`, which may throw. Throws BackendLost after the timeout. `what` names the operation in errors.
void wait_until_ready(const std::function<cudaError_t()>& query, const char* what,
                      double patience_seconds = kPatienceSeconds, const std::function<void()>& between = {});

void wait_for_stream(cudaStream_t stream, const char* what);

}  // namespace nibble::cuda
