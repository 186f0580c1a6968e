// Rejects models that the kernels or the GPU's memory cannot take, before they are loaded. Needs no GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/plan.h"
#include "model/shares/share.h"

namespace nibble::cuda {

// Throws InputError if no kernel takes the model's shapes. `source` names the model.
void check_shapes(const Config& config, std::string_view source);

// Returns why `num_ranks` GPUs of this kind cannot share a model on one machine; empty if they can.
std::string why_not_ranks(const DeviceCaps& caps, int num_ranks);

// Returns the share of each rank. Throws InputError like shares_of() in model/shares/share.h.
std::vector<Share> shares_of(const Config& config, const CudaOptions& own, std::string_view source);

// Returns the shares of this process's ranks: all, or one if node_rank is set. Throws like shares_of().
std::vector<Share> shares_here(const Config& config, const CudaOptions& own, std::string_view source);

// Throws InputError if options.draft_head is set and does not run on the target.
void check_draft_head(const BackendOptions& options, const Target& target);

// Returns why the plan's kernels exceed its budget; empty if they do not.
std::string why_not_budget(const Plan& plan, const Config& config, const DeviceCaps& caps);

// The memory that one GPU needs for the shares of all its ranks. GPUs are ordered by their first rank.
struct GpuPlan {
  int device;
  MemoryPlan plan;
};
std::vector<GpuPlan> memory_plans(const Config& config, const BackendOptions& options,
                                  const CudaOptions& own);
// Returns the memory plan of `device` or, if not set, of the GPU that needs the most memory.
MemoryPlan memory_plan(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::optional<int> device = {});

// The free bytes of GPU number `device` or, if not set, of the GPU that needs the most memory.
struct FreeMemory {
  size_t bytes;
  std::optional<int> device{};
};
// If a model needs more than the free memory, returns what it needs and what would fit. Empty: it fits.
std::string why_not_memory(const Config& config, std::string_view source, const BackendOptions& options,
                           const CudaOptions& own, const FreeMemory& free);

// Returns the GPU's free bytes for weights, cache and workspace, which exclude kStagingBytes for loading.
size_t loadable_bytes(const DeviceCaps& caps);

}  // namespace nibble::cuda
