// Launches a kernel that is not part of a step, without timestamps. pipeline/pdl.cuh launches the kernels of
// steps.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"

namespace nibble::cuda {

struct LaunchSize {
  unsigned num_ctas, num_threads;  // num_threads: threads per CTA
};

// Launches a kernel. `what` says what the kernel does, for error messages: "reading its memory".
template <typename... Params, typename... Args>
void run_kernel(cudaStream_t stream, const char* what, void (*kernel)(Params...), const LaunchSize& size,
                const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(size.num_ctas);
  config.blockDim = dim3(size.num_threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

}  // namespace nibble::cuda
