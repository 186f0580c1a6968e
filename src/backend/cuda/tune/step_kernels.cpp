#include "backend/cuda/tune/step_kernels.h"

#include <algorithm>
#include <set>

namespace nibble::cuda {
namespace {

std::string_view kernel_of(const KernelRow* row) { return row ? row->kernel : std::string_view(); }

StepKernels kernels_of(const Plan& plan, int num_rows) {
  StepKernels kernels{.of_rows = num_rows};
  for (const KernelRow* row : plan.chosen()) {
    if (is_tried(row->operation) && !row->takes(num_rows)) continue;
    KernelRow& taken = kernels.rows.emplace_back(*row);
    if (is_tried(row->operation)) taken.from_rows = 1, taken.to_rows = kAnyRows;
  }
  return kernels;
}

bool are_same(const StepKernels& a, const StepKernels& b) {
  return std::ranges::all_of(kTriedOperations, [&](Operation operation) {
    return kernel_of(a.find(operation)) == kernel_of(b.find(operation));
  });
}

// Appends to `all` the sets of kernels that the plan runs: one set for each number of rows at which the
// kernel of any tried operation changes.
void append_kernels(const Plan& plan, bool may_be_chosen, std::vector<StepKernels>& all) {
  std::set<int> begins;
  for (const KernelRow* row : plan.chosen())
    if (is_tried(row->operation) && row->from_rows > 1) begins.insert(row->from_rows);
  for (const int begin : begins) {
    StepKernels kernels = kernels_of(plan, begin);
    kernels.may_be_chosen = may_be_chosen;
    if (std::ranges::none_of(all, [&](const auto& other) { return are_same(other, kernels); }))
      all.push_back(std::move(kernels));
  }
}

double microseconds_of(const StepTrial& attention, const StepTrial& experts, int num_layers) {
  double of_step = 0;
  for (const Operation operation : kTriedOperations) {
    const StepTrial& trial = is_of_experts(operation) ? experts : attention;
    const auto found = trial.microseconds.find(operation);
    if (found != trial.microseconds.end())
      of_step += found->second * (operation == Operation::kUnembed ? 1 : num_layers);
  }
  return of_step;
}

using OfRows = std::vector<const StepTrial*>;  // trials with the same number of rows
std::vector<OfRows> by_rows(std::span<const StepTrial> trials) {
  std::vector<OfRows> all;
  for (const StepTrial& trial : trials) {
    if (all.empty() || all.back().front()->num_rows != trial.num_rows) all.emplace_back();
    all.back().push_back(&trial);
  }
  return all;
}

// Returns the trial of the kernels that the table selects; null if these kernels were not tried.
const StepTrial* trial_of_table(std::span<const StepKernels> candidates, const OfRows& trials) {
  const StepTrial* found = nullptr;
  int of_rows = 0;
  for (const StepKernels& candidate : candidates)
    if (candidate.may_be_chosen && candidate.of_rows <= trials.front()->num_rows)
      of_rows = std::max(of_rows, candidate.of_rows);
  for (const StepTrial* trial : trials)
    if (const StepKernels& candidate = candidates[trial->candidate];
        candidate.may_be_chosen && candidate.of_rows == of_rows)
      found = trial;
  return found;
}

// Returns the smallest number of rows above `last` at which the plan changes the operation's kernel, but at
// most `next`.
int boundary_of(const Plan& plan, Operation operation, int last, int next) {
  int boundary = next;
  for (const KernelRow* row : plan.chosen())
    if (row->operation == operation && row->from_rows > last) boundary = std::min(boundary, row->from_rows);
  return boundary;
}

}  // namespace

const KernelRow* StepKernels::find(Operation operation) const {
  const auto found = std::ranges::find(rows, operation, &KernelRow::operation);
  return found == rows.end() ? nullptr : &*found;
}

int StepKernels::most_rows() const {
  int most = kAnyRows;
  for (const KernelRow& row : rows)
    if (is_tried(row.operation)) most = std::min(most, row.max_rows);
  return most;
}

Target target_of(const StepKernels& kernels, const Target& target) {
  Target of_kernels = target;
  of_kernels.has_wgmma &= kernels.may_be_chosen;
  return of_kernels;
}

std::vector<StepKernels> step_kernels(const Config& config, const BackendOptions& options,
                                      const Target& target) {
  std::vector<StepKernels> all;
  append_kernels(Plan(config, options, target, "nibble tune"), true, all);
  Target by_mma = target;
  by_mma.has_wgmma = false;
  if (multiplies_by_wgmma(target)) append_kernels(Plan(config, options, by_mma, "nibble tune"), false, all);
  return all;
}

std::vector<StepChoice> chosen_now(std::span<const StepKernels> candidates,
                                   std::span<const StepTrial> trials) {
  std::vector<StepChoice> choices;
  for (const OfRows& of_rows : by_rows(trials))
    if (const StepTrial* now = trial_of_table(candidates, of_rows))
      choices.push_back({now->num_rows, now->candidate, now->candidate});
  return choices;
}

std::vector<StepChoice> fastest(std::span<const StepKernels> candidates, std::span<const StepTrial> trials,
                                int num_layers) {
  std::vector<StepChoice> choices;
  for (const OfRows& of_rows : by_rows(trials)) {
    const StepTrial* now = trial_of_table(candidates, of_rows);
    const StepTrial *best_attention = now, *best_experts = now;
    double least = now ? microseconds_of(*now, *now, num_layers) / kWorthIt : 0;
    for (const StepTrial* attention : of_rows)
      for (const StepTrial* experts : of_rows) {
        const StepKernels &a = candidates[attention->candidate], &b = candidates[experts->candidate];
        if (!a.may_be_chosen || !b.may_be_chosen ||
            !agree(a.find(Operation::kQkv)->pass, b.find(Operation::kQkv)->pass))
          continue;
        const double microseconds = microseconds_of(*attention, *experts, num_layers);
        if (best_attention && microseconds >= least) continue;
        least = microseconds;
        best_attention = attention;
        best_experts = experts;
      }
    if (best_attention)
      choices.push_back({of_rows.front()->num_rows, best_attention->candidate, best_experts->candidate});
  }
  return choices;
}

std::vector<TunedSteps> tuned_steps(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, std::span<const StepChoice> now) {
  std::vector<TunedSteps> tuned;
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto [num_rows, attention, experts] = choices[i];
    const auto of_table = std::ranges::find(now, num_rows, &StepChoice::num_rows);
    if (of_table == now.end() || (of_table->attention == attention && of_table->experts == experts)) continue;
    const int next = i + 1 < choices.size() ? choices[i + 1].num_rows : num_rows + 1;
    const int most = std::min(candidates[attention].most_rows(), candidates[experts].most_rows());
    tuned.push_back(
        {num_rows, std::min(next - 1, most), candidates[attention].of_rows, candidates[experts].of_rows});
  }
  return tuned;
}

std::vector<KernelChoice> ranges_of(std::span<const StepKernels> candidates,
                                    std::span<const StepChoice> choices, const Plan& plan) {
  std::vector<KernelChoice> ranges;
  for (const Operation operation : kTriedOperations) {
    struct Range {
      const KernelRow* row;
      int from, last;  // from: where the range begins. last: largest tried number of rows in it
    };
    std::vector<Range> of_operation{{plan.find(operation, 1), 1, 1}};
    for (const StepChoice& choice : choices) {
      const size_t candidate = is_of_experts(operation) ? choice.experts : choice.attention;
      const KernelRow* row = candidates[candidate].find(operation);
      Range& before = of_operation.back();
      if (kernel_of(row) == kernel_of(before.row))
        before.last = choice.num_rows;
      else
        of_operation.push_back(
            {row, boundary_of(plan, operation, before.last, choice.num_rows), choice.num_rows});
    }
    for (size_t i = 0; i < of_operation.size(); ++i) {
      const KernelRow* row = of_operation[i].row;
      if (!row) continue;
      ranges.push_back({operation, std::string(name(row->weights)), std::string(name(row->activations)),
                        row->kernel, row->reason, of_operation[i].from,
                        i + 1 < of_operation.size() ? of_operation[i + 1].from - 1 : kAnyRows});
    }
  }
  return ranges;
}

}  // namespace nibble::cuda
