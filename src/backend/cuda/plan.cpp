#include "backend/cuda/plan.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace nibble::cuda {
namespace {

// The format in which a model holds the weights of an operation, or the KV cache.
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

// Norms may be part of the kernels that need them, and a single row's keys and values are appended by attend().
bool is_optional(Operation operation) {
  return operation == Operation::kRmsNorm || operation == Operation::kAppend;
}

// Says whether the activations of a row are those that `prompt_activations` asks for, among rows that differ in them alone.
bool are_asked_for(const KernelRow& row, const std::vector<const KernelRow*>& rows,
                   std::optional<BlockFormat> prompt_activations) {
  if (const std::optional<BlockFormat> format = block_format_of(row)) return format == prompt_activations;
  return std::none_of(rows.begin(), rows.end(), [&](const KernelRow* other) {
    return prompt_activations && block_format_of(*other) == prompt_activations &&
           other->operation == row.operation && other->weights == row.weights && other->takes(row.from_rows);
  });
}

}  // namespace

Plan::Plan(const Config& config, const BackendOptions& options, const Target& target, std::string_view source,
           std::optional<BlockFormat> prompt_activations, std::span<const KernelRow> rows)
    : target_(target), prompt_activations_(prompt_activations) {
  if (prompt_activations) target_.has_wgmma = false;  // it takes activations in another layout
  const std::vector<const KernelRow*> valid = rows_valid_for(target.family, rows);
  for (const Operation operation : kOperations) {
    const Format weights = weights_of(operation, options);
    const size_t first = chosen_.size();
    std::vector<std::pair<const KernelRow*, std::string>> refused;
    for (const KernelRow* row : valid) {
      if (row->operation != operation || row->weights != weights) continue;
      if (!are_asked_for(*row, valid, prompt_activations)) continue;
      std::string refusal = row->why_not ? row->why_not(config, target_) : std::string();
      if (refusal.empty())
        chosen_.push_back(row);
      else
        refused.emplace_back(row, std::move(refusal));
    }
    std::sort(chosen_.begin() + static_cast<ptrdiff_t>(first), chosen_.end(),
              [](const KernelRow* a, const KernelRow* b) { return a->from_rows < b->from_rows; });
    ptrdiff_t next = 1;  // the smallest number of rows that no kernel takes yet
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
      const auto nearest = std::find_if(refused.begin(), refused.end(),
                                        [&](const auto& entry) { return entry.first->takes(num_rows); });
      const std::string reason = nearest == refused.end() ? "" : nearest->second;
      throw InputError(
          "{}: the CUDA backend has no kernel for {} in {} on {}, for a step of {} row{}{}{}; try --backend "
          "cpu",
          source, nibble::name(operation), nibble::name(weights), name(target.family), next,
          next == 1 ? "" : "s", reason.empty() ? "" : ": ", reason);
    }
  }
}

const KernelRow* Plan::find(Operation operation, int num_rows) const {
  for (const KernelRow* row : chosen_)
    if (row->operation == operation && row->takes(num_rows)) return row;
  return nullptr;
}

const KernelRow& Plan::row(Operation operation, int num_rows) const {
  const KernelRow* found = find(operation, num_rows);
  NIBBLE_CHECK(found, "no kernel for {} of {} rows", nibble::name(operation), num_rows);
  return *found;
}

std::vector<KernelChoice> choices(const Plan& plan) {
  const auto kernel_of = [&](const KernelRow& row) {
    const bool is_by_twin = block_format_of(row) && !plan.target().has_block_products;
    return std::string(row.kernel) + (is_by_twin ? ", by twin" : "");
  };
  std::vector<KernelChoice> choices;
  for (const KernelRow* row : plan.chosen())
    choices.push_back({row->operation, std::string(nibble::name(row->weights)),
                       std::string(nibble::name(row->activations)), kernel_of(*row), row->reason,
                       row->from_rows, row->to_rows, name(*row)});
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
