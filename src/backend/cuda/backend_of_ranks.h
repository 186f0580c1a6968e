// Runs steps of a model on the GPUs of one process. Each GPU has a rank, in tests several.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/rank.h"
#include "backend/cuda/ranks/connection.h"

namespace nibble::cuda {

// Makes a backend from a plan for each rank of this process, and loads the weights. `connection` sums results
// over the ranks; it is not used if there is one rank.
std::unique_ptr<Backend> backend_of_ranks(const Weights& weights, const BackendOptions& options,
                                          const CudaOptions& own, std::vector<RankPlan> plans,
                                          Connection connection);

// Returns the numbers of the GPUs that the plans use, in the order of their first ranks.
std::vector<int> cards_of(const std::vector<RankPlan>& plans);

// Returns a plan's kernels and, with several ranks, the kernels that sum their results.
std::vector<KernelChoice> choices_of(const Plan& plan, int num_ranks, bool have_own_sequences,
                                     const Connection& connection);

}  // namespace nibble::cuda
