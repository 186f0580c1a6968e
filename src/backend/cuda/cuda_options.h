// Options that only the CUDA backend has. setup/ passes them together with the BackendOptions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/layout/block_format.h"
#include "backend/tuned_steps.h"

namespace nibble::cuda {

struct CudaOptions {
  // shared_budget and num_multiprocessors make a large GPU run the kernels and grids of a smaller GPU.
  std::optional<int> shared_budget{};        // KB of shared memory per CTA (target.h); not set: GPU's limit
  std::optional<int> num_multiprocessors{};  // multiprocessors that launches may use; not set: all
  bool has_graphs{true};                     // whether decode steps are captured and replayed as CUDA graphs
  bool may_compile{true};  // the driver may compile PTX if the program has no machine code for the GPU
  // Format of the activations that multiply MXFP4 weights in steps of more than kFewTokens tokens. Not set:
  // bfloat16, which smaller steps always use.
  std::optional<BlockFormat> prompt_activations{};
  // Steps for which `nibble tune` found faster kernels on this GPU; empty: all steps run the kernels of the
  // kernel table. Used only if one GPU has the whole model.
  std::vector<TunedSteps> tuned_steps{};
  // `gpus`: GPUs that share the model; if empty, the first GPUs of the machine. A test may name a GPU twice.
  // `parts`: one number per rank; the sizes of the ranks' shares are in this ratio.
  std::vector<int> gpus{};
  std::vector<int> parts{1};
  bool have_whole_experts{false};  // whether each rank holds whole experts; if false, a slice of every expert
  // Whether each rank computes attention for its own sequences, with its own KV cache
  // (BackendOptions::num_kv_caches). If false, each rank computes attention for some heads of all sequences.
  bool have_own_sequences{false};

  // This process's rank, if each rank is a process with one GPU. Not set: this process has all ranks.
  std::optional<int> node_rank{};
  // `nccl`: path of the NCCL library. If set, NCCL connects all ranks. If not set, NCCL connects only ranks
  // on several nodes, and ranks whose GPUs cannot write to each other's memory. `interface`: network
  // interface by which NCCL's ranks find each other; if empty, NCCL chooses.
  std::string nccl{}, interface {};

  int num_ranks() const { return static_cast<int>(parts.size()); }
  bool requests_nccl() const { return node_rank || !nccl.empty(); }
  const char* flag() const { return node_rank ? "--nodes" : "--tensor-parallel-size"; }
};

}  // namespace nibble::cuda
