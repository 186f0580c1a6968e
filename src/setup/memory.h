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

// Bytes of weights that stay in host memory besides what the backend converts. Pages of a mapped file can be
// dropped after reading; synthetic weights cannot.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Bytes that the model needs: on the fullest device, or in host memory for a backend on the host.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Bytes that the model may take: per device its share by --gpu-memory-utilization, at most what is free; on
// the host what is available. A draft model's memory, which is loaded later, is subtracted.
std::vector<size_t> memory_budgets(const ResolvedSettings& setup);
// Returns the fewest bytes left in one of the `budgets` (memory_budgets()); negative: too few.
int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets);

// Throws InputError if the model does not fit into host memory.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
