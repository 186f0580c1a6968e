// Waits for a GPU with a timeout: a GPU that hangs must not block the host forever.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace nibble::cuda {

inline constexpr double kPatienceSeconds{120};

// Polls until query() no longer returns cudaErrorNotReady, and checks its result. Sometimes calls `between`,
// which may throw. Throws BackendLost after the timeout. `what` names the operation in error messages.
void wait_until_ready(const std::function<cudaError_t()>& query, const char* what,
                      double patience_seconds = kPatienceSeconds, const std::function<void()>& between = {});

void wait_for_stream(cudaStream_t stream, const char* what);

}  // namespace nibble::cuda
