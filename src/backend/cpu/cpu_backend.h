// The CPU backend. With float32 activations it uses BF16 and MXFP4 weights as stored. With int8 activations
// it packs experts, and the dense matrices that allow it, into strips (packed_model.h). Keys and values are
// BF16 or FP8.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/cpu_options.h"

namespace nibble::cpu {

// Whether experts take int8 activations with these options on this machine.
bool takes_int8(const CpuOptions& options);

MemoryPlan plan(const Config& config, const BackendOptions& options, const CpuOptions& cpu_options = {});
// Changes the tuning of a backend made by make(). Must be called between steps.
void retune(Backend& backend, const CpuTuning& tuning);
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CpuOptions& cpu_options = {});

}  // namespace nibble::cpu
