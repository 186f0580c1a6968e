// Options of the CUDA backend only; setup/ passes them to it beside the BackendOptions. They let a large GPU run what a small one runs.
#pragma once

#include <optional>

namespace nibble::cuda {

struct CudaOptions {
  std::optional<int> shared_budget{};        // KB per CTA (budget.h); not set: the largest that the GPU has
  std::optional<int> num_multiprocessors{};  // that launches are made for; not set: all
};

}  // namespace nibble::cuda
