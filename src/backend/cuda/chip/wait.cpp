#include "backend/cuda/chip/wait.h"

#include <fmt/format.h>

#include <thread>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "core/system/clock.h"

namespace nibble::cuda {

void wait_until_ready(const std::function<cudaError_t()>& query, const char* what, double patience_seconds,
                      const std::function<void()>& between) {
  constexpr unsigned kPolls{256};
  const Stopwatch waiting;
  for (unsigned polls = 1;; ++polls) {
    const cudaError_t error = query();
    if (error != cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // clears cudaErrorNotReady, which earlier queries left
      return check(error, what);
    }
    if (polls % kPolls != 0) continue;
    std::this_thread::yield();
    if (between) between();
    if (waiting.seconds() > patience_seconds)
      throw BackendLost(fmt::format("the GPU hangs: {} did not end within {:.0f} s", what, patience_seconds));
  }
}

void wait_for_stream(cudaStream_t stream, const char* what) {
  wait_until_ready([&] { return cudaStreamQuery(stream); }, what);
}

}  // namespace nibble::cuda
