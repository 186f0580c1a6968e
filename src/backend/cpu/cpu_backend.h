// The CPU backend: BF16 and MXFP4 weights used as they are stored, activations in float32, KV in BF16. Or experts in strips
// (experts/packed_experts.h), their activations in int8.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace nibble::cpu {

// Whether these options have the experts' activations in int8, on this machine.
bool takes_int8(const BackendOptions& options);

MemoryPlan plan(const Config& config, const BackendOptions& options);
// Changes the tuning, between steps, of a backend that make() made.
void retune(Backend& backend, const CpuTuning& tuning);
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options);

}  // namespace nibble::cpu
