#include "backend/cuda/plan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/errors/check.h"
#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

// Returns the format of an operation's weights; for attention, the format of the KV cache.
Format weights_of(Operation operation, const BackendOptions& options) {
  switch (operation) {
    case Operation::kQkv:
      return options.dense.qkv;
    case Operation::kProject:
      return options.dense.attention_output;
    case Operation::kUnembed:
      return options.dense.unembedding;
    case Operation::kAppend:
    case Operation::kAttend:
      return options.kv_format;
    case Operation::kExpertsUp:
    case Operation::kExpertsDown:
      return Format::kMxfp4;
    case Operation::kEmbed:
    case Operation::kRoute:
      return Format::kBf16;
    case Operation::kRmsNorm:
    case Operation::kSample:
      return Format::kF32;
  }
  return Format::kF32;
}

// Returns whether a plan may lack a kernel for this operation. That is allowed for kRmsNorm and kAppend,
// because other kernels can compute norms, and append keys and values.
bool is_optional(Operation operation) {
  return operation == Operation::kRmsNorm || operation == Operation::kAppend;
}

// Returns the plan's engine. A plan cannot have both wgmma and block-scaled products, because they need
// different layouts of the same activations.
MatrixEngine engine_of(const Target& target, std::optional<BlockFormat> prompt_activations) {
  if (prompt_activations) return MatrixEngine::kBlockScaled;
  return multiplies_by_wgmma(target) ? MatrixEngine::kWgmma : MatrixEngine::kMma;
}

// Returns the rows of the kernel table that a plan may use for an operation: rows of the plan's engine, rows
// of kAny, and rows of mma.sync that no row of the plan's engine replaces.
std::vector<const KernelRow*> rows_for(Operation operation, Format weights, const Target& target,
                                       std::optional<BlockFormat> prompt_activations,
                                       std::span<const KernelRow> rows) {
  const MatrixEngine engine = engine_of(target, prompt_activations);
  std::vector<const KernelRow*> candidates = rows_valid_for(target.family, rows), found;
  std::erase_if(candidates, [&](const KernelRow* row) {
    const bool is_by_engine = row->engine == engine && block_format_of(*row) == prompt_activations;
    const bool is_of_every_plan = row->engine == MatrixEngine::kAny || row->engine == MatrixEngine::kMma;
    return row->operation != operation || row->weights != weights || (!is_by_engine && !is_of_every_plan);
  });
  const auto is_replaced = [&](const KernelRow* row) {
    return row->engine == MatrixEngine::kMma && std::ranges::any_of(candidates, [&](const KernelRow* other) {
             const bool is_by_other = other->engine != MatrixEngine::kMma && other->engine == engine;
             return is_by_other && other->takes(row->from_rows);
           });
  };
  std::remove_copy_if(candidates.begin(), candidates.end(), std::back_inserter(found), is_replaced);
  return found;
}

}  // namespace

bool is_tried(Operation operation) {
  return std::ranges::find(kTriedOperations, operation) != std::end(kTriedOperations);
}

bool is_of_experts(Operation operation) {
  return operation == Operation::kRoute || operation == Operation::kExpertsUp ||
         operation == Operation::kExpertsDown;
}

bool agree(const Pass& qkv_of_attention, const Pass& qkv_of_experts) {
  return qkv_of_attention.takes_norm == qkv_of_experts.takes_norm &&
         qkv_of_attention.leaves_parts == qkv_of_experts.leaves_parts &&
         qkv_of_attention.takes_image == qkv_of_experts.takes_image;
}

Plan::Plan(const Config& config, const BackendOptions& options, const Target& target, std::string_view source,
           const PlanOptions& own)
    : target_(target), prompt_activations_(own.prompt_activations), tuned_steps_(own.tuned_steps) {
  for (const Operation operation : kOperations) {
    const Format weights = weights_of(operation, options);
    const size_t first = chosen_.size();
    std::vector<std::pair<const KernelRow*, std::string>> refused;
    for (const KernelRow* row : rows_for(operation, weights, target, own.prompt_activations, own.rows)) {
      std::string refusal = row->why_not ? row->why_not(config, target_) : std::string();
      if (refusal.empty())
        chosen_.push_back(row);
      else
        refused.emplace_back(row, std::move(refusal));
    }
    std::ranges::sort(chosen_.begin() + first, chosen_.end(), {}, &KernelRow::from_rows);
    ptrdiff_t next = 1;  // smallest number of rows for which no kernel is chosen yet
    for (size_t i = first; i < chosen_.size(); ++i) {
      const KernelRow& row = *chosen_[i];
      if (is_optional(operation) && i == first) next = row.from_rows;
      NIBBLE_CHECK(row.from_rows >= next, "two kernels for {} rows: the second is {}", row.from_rows,
                   name(row));
      if (row.from_rows > next) break;
      next = ptrdiff_t{row.to_rows} + 1;
    }
    if (next <= options.max_batch_tokens && !is_optional(operation)) {
      const auto num_rows = static_cast<int>(next);
      const auto nearest =
          std::ranges::find_if(refused, [&](const auto& entry) { return entry.first->takes(num_rows); });
      const std::string reason = nearest == refused.end() ? "" : nearest->second;
      throw InputError(
          "{}: the CUDA backend has no kernel for {} in {} on {}, for a step of {} row{}{}{}; try --backend "
          "cpu",
          source, nibble::name(operation), nibble::name(weights), name(target.family), next,
          next == 1 ? "" : "s", reason.empty() ? "" : ": ", reason);
    }
  }
  check_tuned_steps(source);
}

// Throws InputError if a tuned step would give wrong results, because one of its kernels takes fewer rows
// than the step has, or because its kernels do not fit together (agree()).
void Plan::check_tuned_steps(std::string_view source) const {
  int last = 1;
  for (const TunedSteps& steps : tuned_steps_) {
    const auto [from, to, attention, experts] = steps;
    bool fits = last < from && from <= to && attention > 1 && experts > 1;
    const KernelRow* qkv[]{find_in_table(Operation::kQkv, attention),
                           find_in_table(Operation::kQkv, experts)};
    fits = fits && qkv[0] && qkv[1] && agree(qkv[0]->pass, qkv[1]->pass);
    for (const Operation operation : kTriedOperations) {
      const KernelRow* row = find_in_table(operation, is_of_experts(operation) ? experts : attention);
      fits = fits && (row ? row->max_rows >= to : is_optional(operation));
    }
    if (!fits)
      throw InputError(
          "{}: for steps of {} to {} rows nibble tune chose kernels that do not fit: run it again, or use "
          "--tuning "
          "off",
          source, from, to);
    last = to;
  }
}

int Plan::table_rows(Operation operation, int num_rows) const {
  for (const TunedSteps& steps : tuned_steps_)
    if (steps.from_rows <= num_rows && num_rows <= steps.to_rows && is_tried(operation))
      return is_of_experts(operation) ? steps.experts : steps.attention;
  return num_rows;
}

const KernelRow* Plan::find(Operation operation, int num_rows) const {
  return find_in_table(operation, table_rows(operation, num_rows));
}

const KernelRow* Plan::find_in_table(Operation operation, int num_rows) const {
  for (const KernelRow* row : chosen_)
    if (row->operation == operation && row->takes(num_rows)) return row;
  return nullptr;
}

const KernelRow& Plan::row(Operation operation, int num_rows) const {
  const KernelRow* found = find(operation, num_rows);
  NIBBLE_CHECK(found, "no kernel for {} of {} rows", nibble::name(operation), num_rows);
  return *found;
}

namespace {

KernelChoice choice_of(const Plan& plan, const KernelRow& row) {
  const bool is_by_twin = block_format_of(row) && !plan.target().has_block_products;
  return {row.operation,
          std::string(nibble::name(row.weights)),
          std::string(nibble::name(row.activations)),
          std::string(row.kernel) + (is_by_twin ? ", by twin" : ""),
          row.reason,
          row.from_rows,
          row.to_rows,
          name(row)};
}

// Appends to `choices` the kernels of an operation that `nibble tune` tries, one entry per range of row
// counts. A new range begins where the table's kernel changes, and where tuned steps begin or end.
void append_tuned(const Plan& plan, Operation operation, std::vector<KernelChoice>& choices) {
  std::set<int> begins;
  for (const KernelRow* row : plan.chosen())
    if (row->operation == operation) begins.insert(row->from_rows);
  for (const TunedSteps& steps : plan.tuned_steps()) begins.insert({steps.from_rows, steps.to_rows + 1});
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    const KernelRow* row = plan.find(operation, *begin);
    if (!row) continue;
    KernelChoice choice = choice_of(plan, *row);
    const auto next = std::next(begin);
    choice.from_rows = *begin;
    choice.to_rows = next != begins.end() ? *next - 1 : row->takes(*begin) ? row->to_rows : kAnyRows;
    if (!row->takes(*begin)) choice.reason = "found by nibble tune on this GPU";
    choices.push_back(std::move(choice));
  }
}

}  // namespace

std::vector<KernelChoice> choices(const Plan& plan) {
  std::vector<KernelChoice> choices;
  for (size_t i = 0; i < plan.chosen().size(); ++i) {
    const KernelRow& row = *plan.chosen()[i];
    if (plan.tuned_steps().empty() || !is_tried(row.operation))
      choices.push_back(choice_of(plan, row));
    else if (i == 0 || plan.chosen()[i - 1]->operation != row.operation)
      append_tuned(plan, row.operation, choices);
  }
  return choices;
}

SharedNeed most_shared(const Plan& plan, const Config& config) {
  SharedNeed most;
  for (const KernelRow* row : plan.chosen()) {
    const size_t bytes = row->shared_bytes ? row->shared_bytes(config, row->weights) : 0;
    if (bytes > most.bytes) most = {row, bytes};
  }
  return most;
}

}  // namespace nibble::cuda
