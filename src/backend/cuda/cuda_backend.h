// Runs a model on one or several NVIDIA GPUs (sm_80 or later). Each GPU has a rank (docs/scaling.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"

namespace nibble::cuda {

// Returns one line that says why this machine cannot run the backend; empty if it can.
std::string why_not();

// Returns why the backend takes no BackendOptions::adapters with these options; empty if it takes them.
std::string why_no_adapters(const CudaOptions& own);

MemoryPlan plan(const Config& config, const BackendOptions& options, const CudaOptions& own);
// Makes a backend and loads the weights. Throws InputError if a GPU is missing or too small, or if no kernel
// takes the model's shapes or formats.
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CudaOptions& own = {});

// Returns the kernels that the GPU named `gpu` would run. Throws InputError if this GPU is unknown (caps.h),
// or if no kernel runs one of the model's operations on it.
RemoteKernels kernels_on(std::string_view gpu, const Config& config, const BackendOptions& options,
                         const CudaOptions& own, std::string_view source);

}  // namespace nibble::cuda
