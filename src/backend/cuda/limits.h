// Rejects a model that the kernels or the GPU's memory cannot take, before its weights are loaded.
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

// Returns why `num_ranks` GPUs with these properties cannot share a model on one machine; empty if they can.
std::string why_not_ranks(const DeviceCaps& caps, int num_ranks);

// Returns the share of each rank. Throws InputError like shares_of() in model/shares/share.h.
std::vector<Share> shares_of(const Config& config, const CudaOptions& own, std::string_view source);

// Returns the shares of the ranks in this process: all, or one if node_rank is set. Throws like shares_of().
std::vector<Share> shares_here(const Config& config, const CudaOptions& own, std::string_view source);

// Throws InputError if options.draft_head is set and the target cannot run that draft head.
void check_draft_head(const BackendOptions& options, const Target& target);

// Returns a message if the plan's kernels need more shared memory than the plan's budget; otherwise empty.
std::string why_not_budget(const Plan& plan, const Config& config, const DeviceCaps& caps);

// The memory that one GPU needs for all its ranks. memory_plans() returns one entry per GPU, in the order of
// the GPUs' first ranks.
struct GpuPlan {
  int device;
  MemoryPlan plan;
};
std::vector<GpuPlan> memory_plans(const Config& config, const BackendOptions& options,
                                  const CudaOptions& own);
// Returns the memory plan of `device` or, if not set, of the GPU that needs the most memory.
MemoryPlan memory_plan(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::optional<int> device = {});

// Free memory of GPU number `device`; if `device` is not set, of the GPU that needs the most memory.
struct FreeMemory {
  size_t bytes;
  std::optional<int> device{};
};
// If the model does not fit into the free memory, returns a message that says how much memory it needs, and
// with which options it would need less. If the model fits, returns an empty string.
std::string why_not_memory(const Config& config, std::string_view source, const BackendOptions& options,
                           const CudaOptions& own, const FreeMemory& free);

// Returns the bytes of GPU memory that weights, KV cache and workspace may take: all free memory except
// kStagingBytes, which loading needs.
size_t loadable_bytes(const DeviceCaps& caps);

}  // namespace nibble::cuda
