// Waits for a GPU with a timeout, so that a GPU that hangs does not block the host forever.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace nibble::cuda {

inline constexpr double kPatienceSeconds{120};

// Calls query() until it returns something other than cudaErrorNotReady, and passes that to check(). Calls
// `between`, which may throw, after every 256 polls. Throws BackendLost on a timeout. `what` says what the
// GPU runs, for error messages.
void wait_until_ready(const std::function<cudaError_t()>& query, const char* what,
                      double patience_seconds = kPatienceSeconds, const std::function<void()>& between = {});

void wait_for_stream(cudaStream_t stream, const char* what);

}  // namespace nibble::cuda
