// Runs a kernel that is no part of a step: it starts when everything in the stream before it has ended, and nobody times it. Those of steps
// are launched by pdl.cuh.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"

namespace nibble::cuda {

// `what` is being done, for the message where that fails.
template <typename... Params, typename... Args>
void run_kernel(cudaStream_t stream, const char* what, void (*kernel)(Params...), unsigned num_ctas,
                unsigned num_threads, const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(num_ctas);
  config.blockDim = dim3(num_threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

}  // namespace nibble::cuda
