// The candidates of `nibble tune` on a GPU, and what their times imply for the kernel table. Needs no GPU.
// The kernels of a step depend on each other: which of them computes norms, whether sums come in parts,
// whether activations are images, how many pairs an expert's group has. So a candidate is the full set of
// kernels that the table runs at some number of rows, tried at other numbers too. Two candidates that agree
// in these may be mixed: attention's products of one, the experts' of the other. Tiles, stages and warps are
// constants of the kernels.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cuda/plan.h"

namespace nibble::cuda {

// Operations whose kernels are tried. Norms have one kernel, or kernels of other operations compute them.
inline constexpr Operation kTriedOperations[]{
    Operation::kRmsNorm,   Operation::kQkv,         Operation::kProject, Operation::kRoute,
    Operation::kExpertsUp, Operation::kExpertsDown, Operation::kUnembed};

struct StepKernels {
  int of_rows{0};  // a number of rows for which the kernel table chooses these kernels
  // If false, the kernels use mma.sync on a chip where wgmma is used, and are tried for comparison only.
  bool may_be_chosen{true};
  // Table rows for a Plan; those of tried operations are changed to cover every number of rows.
  std::vector<KernelRow> rows{};

  const KernelRow* find(Operation operation) const;  // null: no kernel, for example norms computed by others
  int most_rows() const;  // most rows for which all kernels of tried operations work
};

// Candidates for steps of two rows and more; a single token has kernels of its own. `target`: the GPU's.
std::vector<StepKernels> step_kernels(const Config& config, const BackendOptions& options,
                                      const Target& target);
// The target for a Plan with these kernels: without wgmma if may_be_chosen is false.
Target target_of(const StepKernels& kernels, const Target& target);

// Microseconds of a candidate's operations at one number of rows: per layer, or per step for unembed.
struct StepTrial {
  size_t candidate{0};
  int num_rows{0};
  std::map<Operation, double> microseconds{};
};

// Candidates whose kernels a step of num_rows rows uses: for attention's products, and for the experts'.
struct StepChoice {
  int num_rows{0};
  size_t attention{0}, experts{0};
};
// chosen_now(): the table's choice at each tried number of rows. fastest(): the fastest choice, if it makes a
// step of `num_layers` layers faster by a factor of kWorthIt. `trials` are in order of rows.
inline constexpr double kWorthIt{1.02};
std::vector<StepChoice> chosen_now(std::span<const StepKernels> candidates,
                                   std::span<const StepTrial> trials);
std::vector<StepChoice> fastest(std::span<const StepKernels> candidates, std::span<const StepTrial> trials,
                                int num_layers);

// Converts choices to ranges of rows. Between two tried numbers of rows, the later kernel begins where the
// plan switches kernels, otherwise at the higher number.
std::vector<KernelChoice> ranges_of(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, const Plan& plan);

}  // namespace nibble::cuda
