// Options of the CUDA backend only; setup/ passes them to it beside the BackendOptions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/block_format.h"

namespace nibble::cuda {

struct CudaOptions {
  // These two let a large GPU run what a small one runs.
  std::optional<int> shared_budget{};        // KB per CTA (budget.h); not set: the largest that the GPU has
  std::optional<int> num_multiprocessors{};  // that launches are made for; not set: all
  bool has_graphs{true};                     // decode steps are recorded and run again as CUDA graphs
  bool may_compile{true};  // the driver may compile PTX where there is no machine code for the GPU (images.h)
  // The activations that experts multiply their weights with in steps of many tokens; not set: bfloat16, as in all others.
  std::optional<BlockFormat> prompt_activations{};
  // Several GPUs that share the model: the number of each one, of which one may be named twice, for tests; none: the first ones. And the
  // parts of the model that each has, in proportion.
  std::vector<int> gpus{};
  std::vector<int> parts{1};
  bool have_whole_experts{false};  // each some, in place of a part of every one
  // Each computes attention of some sequences, in place of some heads of all. It has a KV cache for these
  // (BackendOptions::num_kv_caches).
  bool have_own_sequences{false};

  // Each part is a process's of its own, and this is the number of this one's, which has one GPU. Not set: all are of this process.
  std::optional<int> node_rank{};
  // NCCL connects nodes, GPUs that cannot write into each other's memory, and others where its library is named here. `interface`: Nccl::load().
  std::string nccl{}, interface {};

  int num_ranks() const { return static_cast<int>(parts.size()); }
  bool asks_for_nccl() const { return node_rank || !nccl.empty(); }
  // The one by which the parts came, for messages.
  const char* flag() const { return node_rank ? "--nodes" : "--tensor-parallel-size"; }
};

}  // namespace nibble::cuda
