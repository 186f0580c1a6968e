// Memory is counted before it is taken: a model that does not fit is refused with the figures, not by the kernel's OOM killer.
#pragma once

#include <cstddef>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolve.h"

namespace nibble {

// Bytes of weights that have to stay in memory beside what the backend converts: pages of a mapped file that were read once can be
// given back, weights that were made can't.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Bytes that the model takes with these options: on a device what it holds there, else what the host has to keep.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Bytes that it may take: --gpu-memory-utilization of a device and no more than is free, else what the host has available; without those
// of a model that drafts, which is loaded later.
size_t memory_budget(const ResolvedSettings& setup);

// Throws InputError where the host's memory lacks.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
