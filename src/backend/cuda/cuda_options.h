// Options of the CUDA backend only; setup/ passes them next to the BackendOptions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/layout/block_format.h"

namespace nibble::cuda {

struct CudaOptions {
  // shared_budget and num_multiprocessors make a large GPU run the kernels and grids of a smaller one.
  std::optional<int> shared_budget{};        // KB per CTA (target.h); not set: the largest that the GPU has
  std::optional<int> num_multiprocessors{};  // number of multiprocessors that launches use; not set: all
  bool has_graphs{true};                     // decode steps are captured and replayed as CUDA graphs
  bool may_compile{true};  // the driver may compile PTX if there is no machine code for the GPU (images.h)
  // Format of the experts' activations in steps of many tokens; not set: bfloat16, as in all other steps.
  std::optional<BlockFormat> prompt_activations{};
  // GPUs that share the model (empty: the first ones; a test may name one twice), and ratio of their shares.
  std::vector<int> gpus{};
  std::vector<int> parts{1};
  bool have_whole_experts{false};  // true: each rank holds some experts whole; false: a part of each
  // Each rank computes attention for some sequences, with a KV cache of its own
  // (BackendOptions::num_kv_caches); false: some heads of all sequences.
  bool have_own_sequences{false};

  // Set if each rank is a process with one GPU: this process's rank. Not set: all ranks are in this process.
  std::optional<int> node_rank{};
  // NCCL connects ranks on several nodes, or on GPUs that cannot write into each other's memory. If `nccl`
  // names its library, it connects all ranks. `interface`: see Nccl::load().
  std::string nccl{}, interface {};

  int num_ranks() const { return static_cast<int>(parts.size()); }
  bool requests_nccl() const { return node_rank || !nccl.empty(); }
  const char* flag() const { return node_rank ? "--nodes" : "--tensor-parallel-size"; }
};

}  // namespace nibble::cuda
