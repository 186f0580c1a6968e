// The candidates of `nibble tune` on a GPU, and what their times say about the kernel table. Needs no GPU.
//
// Kernels of a step depend on each other: who computes norms, whether sums come in parts, whether activations lie in images, how many pairs
// a group of an expert has. So a candidate is what the table runs in steps of some number of rows, all of it, asked to run steps of another.
// A step may take the products of attention from one candidate and those of the experts from another, where the two agree on these things.
//
// Tiles, stages and warps are constants of a kernel: the table has a row for each that is compiled, and there is nothing else to try.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cuda/plan.h"

namespace nibble::cuda {

// The operations that are tried. Norms have one kernel; what is tried is who computes them.
inline constexpr Operation kTriedOperations[]{
    Operation::kRmsNorm,   Operation::kQkv,         Operation::kProject, Operation::kRoute,
    Operation::kExpertsUp, Operation::kExpertsDown, Operation::kUnembed};

struct StepKernels {
  int of_rows{0};  // the table runs them in steps of so many rows
  // The table may take them here: else they are by mma.sync where wgmma multiplies, and tried for comparison alone.
  bool may_be_chosen{true};
  // Rows of the table, of which those of tried operations take every number of rows: for a Plan.
  std::vector<KernelRow> rows{};

  const KernelRow* find(
      Operation operation) const;  // null: it has none, as of norms that other kernels compute
  int most_rows() const;           // the least max_rows of the rows of tried operations
};

// Those for steps of two rows and more; a single token has kernels of its own. `target` is the GPU's.
std::vector<StepKernels> step_kernels(const Config& config, const BackendOptions& options,
                                      const Target& target);
// The target for which a plan takes a candidate.
Target target_of(const StepKernels& kernels, const Target& target);

// Microseconds of a candidate in steps of so many rows: of a layer, and of a step for unembed, which is left out beyond kOutputRows.
struct StepTrial {
  size_t candidate{0};
  int num_rows{0};
  std::map<Operation, double> microseconds{};
};

// The candidates whose kernels a step of so many rows takes: those of attention's products, and those of the experts'.
struct StepChoice {
  int num_rows{0};
  size_t attention{0}, experts{0};
};
// chosen_now() returns the table's choice for each number of rows that was tried, and fastest() the best: it differs from the table's only
// where a step of `num_layers` layers is faster with it by more than kWorthIt. `trials` are in the order of rows.
inline constexpr double kWorthIt{1.02};
std::vector<StepChoice> chosen_now(std::span<const StepKernels> candidates,
                                   std::span<const StepTrial> trials);
std::vector<StepChoice> fastest(std::span<const StepKernels> candidates, std::span<const StepTrial> trials,
                                int num_layers);

// Both as ranges of rows. A kernel takes over where the plan has it do so, if that lies between two numbers of rows that were tried; else at
// the higher one.
std::vector<KernelChoice> ranges_of(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, const Plan& plan);

}  // namespace nibble::cuda
