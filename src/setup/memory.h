// Counts memory before it is allocated: a model that does not fit is refused with figures, not killed
// by the kernel's OOM killer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Returns the bytes of weights that must stay in host memory in addition to what the backend converts. Pages
// of a mapped file that were read once can be dropped; weights that were made (synthetic) cannot.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Returns the bytes that the model needs with these options: on the fullest device, or in host memory for a
// backend that runs on the host.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Returns the bytes that the model may take: on each device its share by --gpu-memory-utilization, at
// most what is free; on the host what is available. The memory of a draft model, which is loaded
// later, is already subtracted.
std::vector<size_t> memory_budgets(const ResolvedSettings& setup);
// Returns the smallest number of bytes left in any of the budgets; negative if the model does not fit.
// `budgets` has one entry per entry of memory_budgets().
int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets);

// Throws InputError if the model does not fit into host memory.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
