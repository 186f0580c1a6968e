// Waits for a GPU, up to a limit: a GPU that hangs must not hold up its host forever.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace nibble::cuda {

inline constexpr double kPatienceSeconds{120};

// Polls until query() gives another result than cudaErrorNotReady, and checks that. Now and then it calls `between`, which may throw.
// Throws BackendLost once the limit has passed. `what` is what an error says was being done.
void wait_until_ready(const std::function<cudaError_t()>& query, const char* what,
                      double patience_seconds = kPatienceSeconds, const std::function<void()>& between = {});

// The same for all work of a stream.
void wait_for_stream(cudaStream_t stream, const char* what);

}  // namespace nibble::cuda
