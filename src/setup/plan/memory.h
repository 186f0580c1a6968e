// Counts memory before allocation: a model that does not fit is refused before the OOM killer ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Returns the memory plan of the fullest device, or of this node's share in host memory. The plan counts
// experts in the format in which the backend runs them, and dense layers as a device stores them.
MemoryPlan memory_plan(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

// Returns the bytes of weights that stay in host memory and that the plan does not count. If they are in a
// mapped file, the system can drop their pages and read them again; synthetic weights must stay.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup);

// Returns the bytes that the model needs: on the fullest device, or in host memory for a backend on the host.
size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);
// Defaults of --gpu-memory-utilization: for a GPU with memory of its own (0.9 as in vLLM), and for a GPU that
// shares the host's memory. The rest of a GPU's own memory is for the driver, CUDA graphs, and allocations
// that the memory plan does not count. The rest of shared memory is for other programs and the page cache.
inline constexpr double kDeviceMemoryShare{0.9}, kHostMemoryShare{0.7};
// Bytes that always stay free in memory that GPU and host share, even with --gpu-memory-utilization 1. The
// operating system and the page cache need them: otherwise programs page from the disk, or the OOM killer
// ends one of them.
inline constexpr size_t kHostReserveBytes{4'000'000'000};
double memory_share(const ResolvedSettings& setup, bool uses_host_memory);
// Returns the bytes of `memory` that the model may take: `share` of the total, but at most the free bytes.
// If the memory is shared with the host, kHostReserveBytes of it stay free.
size_t memory_budget(const DeviceMemory& memory, double share);

// Returns the bytes that the model may take: for each GPU its share (memory_share()), limited to free memory;
// for the host, available memory. Subtracts the memory of a draft model, which is loaded later.
std::vector<size_t> memory_budgets(const ResolvedSettings& setup);
// Returns the bytes that the model leaves of the fullest device's budget (`budgets`: memory_budgets()).
// Negative: the model does not fit.
int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets);

// Throws InputError if the model does not fit into host memory.
void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options);

}  // namespace nibble
