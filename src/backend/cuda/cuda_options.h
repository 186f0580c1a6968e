// Options of the CUDA backend only; setup/ passes them to it next to the BackendOptions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/layout/block_format.h"

namespace nibble::cuda {

struct CudaOptions {
  // shared_budget and num_multiprocessors make a large GPU run the kernels and grids of a smaller one.
  std::optional<int> shared_budget{};        // KB per CTA (target.h); not set: the largest that the GPU has
  std::optional<int> num_multiprocessors{};  // that launches use; not set: all
  bool has_graphs{true};                     // decode steps are captured and replayed as CUDA graphs
  bool may_compile{true};  // the driver may compile PTX if there is no machine code for the GPU (images.h)
  // The format of the experts' activations in steps of many tokens; not set: bfloat16, as in all other steps.
  std::optional<BlockFormat> prompt_activations{};
  // The numbers of the GPUs that share the model; a test may name a GPU twice. Empty: the first GPUs.
  // `parts`: their shares of the model, in proportion.
  std::vector<int> gpus{};
  std::vector<int> parts{1};
  bool have_whole_experts{false};  // each rank has some experts, instead of a part of every expert
  // Each rank computes attention for some sequences, instead of some heads for all sequences. It has a KV
  // cache for its sequences (BackendOptions::num_kv_caches).
  bool have_own_sequences{false};

  // If set, each part runs in a process of its own with one GPU, and this is the part of this process. Not
  // set: all parts are in this process.
  std::optional<int> node_rank{};
  // NCCL connects nodes, and GPUs that cannot write into each other's memory. If `nccl` names its library, it
  // connects other GPUs too. `interface`: see Nccl::load().
  std::string nccl{}, interface {};

  int num_ranks() const { return static_cast<int>(parts.size()); }
  bool requests_nccl() const { return node_rank || !nccl.empty(); }
  // Returns the option that divides the model, for messages.
  const char* flag() const { return node_rank ? "--nodes" : "--tensor-parallel-size"; }
};

}  // namespace nibble::cuda
