// The model on NVIDIA GPUs (sm_80 or later): on one, or shared among several, each with a rank (docs/scaling.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"
#include "backend/device_facts.h"

namespace nibble::cuda {

// Says in a line why this machine cannot run it; empty where it can.
std::string why_not();

DeviceFacts device_facts();  // what the GPU is and how it stands at this moment, for records

// Bytes per second that all multiprocessors together read from the GPU's memory: the best of several passes over 2
// GB.
double read_bandwidth();

MemoryPlan plan(const Config& config, const BackendOptions& options, const CudaOptions& own);
// Throws InputError where there is no GPU, not enough memory on it, or no kernel for the model's shapes or formats.
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CudaOptions& own = {});

// The kernels that a GPU would run. Throws InputError where `gpu` is none that nibble knows (caps.h), or has no kernel for the model.
RemoteKernels kernels_on(std::string_view gpu, const Config& config, const BackendOptions& options,
                         const CudaOptions& own, std::string_view source);

}  // namespace nibble::cuda
