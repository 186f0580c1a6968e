// A model's plan on a GPU: for each operation, the rows of the kernel table that are chosen when the model is
// loaded. operations.h launches the kernels; recipe.h says how the kernels of a step fit together.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/kernel_table.h"
#include "backend/tuned_steps.h"

namespace nibble::cuda {

struct PlanOptions {
  // Format of the activations that multiply MXFP4 weights in steps of more than kFewTokens tokens; not set:
  // bfloat16. If set, the plan uses block-scaled products.
  std::optional<BlockFormat> prompt_activations{};
  std::span<const KernelRow> rows{kernel_rows()};
  std::vector<TunedSteps> tuned_steps{};  // steps for which `nibble tune` chose other kernels than the table
};

// Operations whose kernels `nibble tune` chooses. It tries sets, each with one kernel per operation. kRmsNorm
// has only one kernel, but some sets lack it: in these sets, the kernels that read a norm compute it.
inline constexpr Operation kTriedOperations[]{
    Operation::kRmsNorm,   Operation::kQkv,         Operation::kProject, Operation::kRoute,
    Operation::kExpertsUp, Operation::kExpertsDown, Operation::kUnembed};
bool is_tried(Operation operation);
bool is_of_experts(Operation operation);
// The kernel table has a set of kernels for each number of rows. A tuned step may take attention's kernels
// from one set and the experts' kernels from another. agree() returns whether these two sets can be combined.
// They can if takes_norm, leaves_parts and takes_image of their qkv kernels are equal.
bool agree(const Pass& qkv_of_attention, const Pass& qkv_of_experts);

class Plan {
 public:
  // Throws InputError if no table row runs an operation on the target, or if the kernels of a tuned step
  // cannot run it or do not fit together. `source` names the model.
  Plan(const Config& config, const BackendOptions& options, const Target& target, std::string_view source,
       const PlanOptions& own = {});

  const Target& target() const { return target_; }
  // find() and row() return the table row that runs an operation on `num_rows` rows. If the plan has no such
  // row, find() returns null and row() throws.
  const KernelRow* find(Operation operation, int num_rows) const;
  const KernelRow& row(Operation operation, int num_rows) const;
  // Returns the chosen table rows in the order of a step's operations.
  std::span<const KernelRow* const> chosen() const { return chosen_; }
  std::span<const TunedSteps> tuned_steps() const { return tuned_steps_; }
  std::optional<BlockFormat> prompt_activations() const { return prompt_activations_; }

 private:
  // Returns the number of rows whose entry of the table a step of `num_rows` rows takes. This is `num_rows`,
  // unless `nibble tune` found that the kernel for another number of rows is faster.
  int table_rows(Operation operation, int num_rows) const;
  const KernelRow* find_in_table(Operation operation, int num_rows) const;
  void check_tuned_steps(std::string_view source) const;

  Target target_;
  std::optional<BlockFormat> prompt_activations_;
  std::vector<const KernelRow*> chosen_;
  std::vector<TunedSteps> tuned_steps_;
};

std::vector<KernelChoice> choices(const Plan& plan);

// The chosen table row whose CTAs need the most shared memory, and how many bytes a CTA needs.
struct SharedNeed {
  const KernelRow* row{nullptr};
  size_t bytes{0};
};
SharedNeed most_shared(const Plan& plan, const Config& config);

}  // namespace nibble::cuda
