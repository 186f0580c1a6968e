// Memory is counted before it is taken: a model that does not fit is refused with the figures, not by the kernel's OOM killer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolve.h"

namespace nibble {

// Bytes of weights that have to stay in memory beside what the backend converts: pages of a mapped file that were read once can be
// given back, weights that were made can't.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Bytes that the model takes with these options: on the fullest device what it holds there, else what the host has to keep.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Bytes that it may take on each device: --gpu-memory-utilization of it and no more than is free; else what the host has available. Without
// those of a model that drafts, which is loaded later.
std::vector<size_t> memory_budgets(const ResolvedSettings& setup);
// What is left of each budget, of which there are as many as memory_budgets() gives; the smallest, negative where it does not fit there.
int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets);

// Throws InputError where the host's memory lacks.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
