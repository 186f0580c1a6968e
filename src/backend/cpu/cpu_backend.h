// The CPU backend. With float32 activations it uses BF16, FP8 and MXFP4 weights as stored. With int8
// activations it repacks experts of MXFP4 or Q8_0, and the dense matrices that allow it, into strips: rows in
// the order of vector lanes.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/cpu_options.h"

namespace nibble::cpu {

bool takes_int8(const CpuOptions& options);
// Returns whether the backend has kernels for experts in this format. Q8_0 needs int8 activations.
bool runs_experts(Format format, const CpuOptions& options);

MemoryPlan plan(const Config& config, const BackendOptions& options, const CpuOptions& cpu_options = {});
// Changes the tuning of a backend that make() returned. Call it only between steps.
void retune(Backend& backend, const CpuTuning& tuning);
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CpuOptions& cpu_options = {});

}  // namespace nibble::cpu
