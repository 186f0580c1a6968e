// Counts memory before allocation, to refuse a model with figures instead of meeting the OOM killer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Returns the bytes of weights in host memory that the plan does not count. After reading, the system can
// drop pages of a mapped file, but not of synthetic weights.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Bytes that the model needs: on the fullest device, or in host memory for a backend on the host.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Returns the bytes that the model may take: for each GPU its --gpu-memory-utilization, at most what is free;
// for the host what is available. Subtracts the memory of a draft model, which is loaded later.
std::vector<size_t> memory_budgets(const ResolvedSettings& setup);
// Returns the fewest bytes left in one of the `budgets` (memory_budgets()); negative: too few.
int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets);

// Throws InputError if the model does not fit into host memory.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
