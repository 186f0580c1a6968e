// The candidates of `nibble tune`, and the choice among them by their times. This part needs no GPU. A step's
// kernels depend on each other: which kernel computes norms, whether sums come in parts, whether activations
// are images, how many pairs a group has. So a candidate is the set of all kernels that the table runs at
// some number of rows; it is tried at other numbers too. If two candidates agree in these points, a step may
// combine attention's products of one with the experts' products of the other. Tiles, stages and warps are
// constants of the kernels, and are not tuned.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "backend/cuda/plan.h"

namespace nibble::cuda {

struct StepKernels {
  int of_rows{0};  // a number of rows of a step for which the kernel table chooses these kernels
  // If false, these are mma.sync kernels on a chip that uses wgmma, which are tried only for comparison.
  bool may_be_chosen{true};
  // Entries of the kernel table, from which a Plan is made. Entries of tried operations are changed to apply
  // to steps of any number of rows.
  std::vector<KernelRow> rows{};

  const KernelRow* find(Operation operation) const;  // null: the set has no kernel for this operation
  int most_rows() const;  // returns the largest number of rows that all kernels of tried operations can take
};

// Returns the sets of kernels to try in steps of two or more rows. Steps of one row have kernels of their
// own, which are not tried. `target`: target of the GPU that is tuned.
std::vector<StepKernels> step_kernels(const Config& config, const BackendOptions& options,
                                      const Target& target);
// Returns the target to pass to a Plan with these kernels: `target`, but without wgmma if
// kernels.may_be_chosen is false.
Target target_of(const StepKernels& kernels, const Target& target);

// A candidate's times at one number of rows: microseconds per operation and layer (unembed: per step).
struct StepTrial {
  size_t candidate{0};
  int num_rows{0};
  std::map<Operation, double> microseconds{};
};

// Indices of the candidates whose kernels a step of num_rows rows runs: `attention` for attention's products,
// `experts` for the experts' products.
struct StepChoice {
  int num_rows{0};
  size_t attention{0}, experts{0};
};
// chosen_now() returns the kernel table's choice at each tried number of rows. fastest() returns the fastest
// choice if it makes a step of num_layers layers at least kWorthIt times faster; otherwise the table's
// choice. `trials` must be ordered by number of rows.
inline constexpr double kWorthIt{1.02};
std::vector<StepChoice> chosen_now(std::span<const StepKernels> candidates,
                                   std::span<const StepTrial> trials);
std::vector<StepChoice> fastest(std::span<const StepKernels> candidates, std::span<const StepTrial> trials,
                                int num_layers);

// Returns the steps for which `choices` differ from `now`, the table's choices at the same numbers of rows.
// An entry of `choices` also holds for larger numbers of rows, up to that of the next entry; the last entry
// holds only for its own number.
std::vector<TunedSteps> tuned_steps(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, std::span<const StepChoice> now);

// Converts choices to ranges of row counts. If an operation has different kernels at two successive tried
// numbers of rows, the range of the second kernel begins where the plan switches the operation's kernel
// between these two numbers; if the plan does not switch it there, the range begins at the second number.
std::vector<KernelChoice> ranges_of(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, const Plan& plan);

}  // namespace nibble::cuda
