// The CUDA backend refuses some models before it loads anything: those whose shapes no kernel takes, those that need more shared memory
// than the GPU's CTAs have, and those that do not fit into the GPU's memory. Needs no GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/plan.h"
#include "model/shares/share.h"

namespace nibble::cuda {

// Throws InputError. `source` names the model.
void check_shapes(const Config& config, std::string_view source);

// Why so many GPUs of a kind cannot share a model on one machine; empty where they can.
std::string why_not_ranks(const DeviceCaps& caps, int num_ranks);

// The share of each rank. Throws InputError as the function of that name in model/shares/share.h.
std::vector<Share> shares_of(const Config& config, const CudaOptions& own, std::string_view source);

// The shares of the ranks of this process: of all, or, with CudaOptions::node_rank, of one. Throws as shares_of() does.
std::vector<Share> shares_here(const Config& config, const CudaOptions& own, std::string_view source);

// Throws InputError where options.draft_head, if there is one, does not run on the target.
void check_draft_head(const BackendOptions& options, const Target& target);

// Says why the plan's kernels do not run within its budget; empty where they do.
std::string why_not_budget(const Plan& plan, const Config& config, const DeviceCaps& caps);

// Of each GPU that has a share of the model, in the order in which ranks first name them.
struct GpuPlan {
  int device;
  MemoryPlan plan;
};
std::vector<GpuPlan> memory_plans(const Config& config, const BackendOptions& options,
                                  const CudaOptions& own);
// Of one GPU; of that which has most to take, if several share the model and none is named.
MemoryPlan memory_plan(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::optional<int> device = {});

// Says what a model needs of the GPU where that is more than `free` bytes, and what would fit; empty where it fits.
std::string why_not_memory(const Config& config, std::string_view source, const BackendOptions& options,
                           const CudaOptions& own, size_t free, std::optional<int> device = {});

// Counts what weights, cache and workspace can take of the GPU's memory now: what is free, less what loading takes beside them.
size_t loadable_bytes(const DeviceCaps& caps);

}  // namespace nibble::cuda
