#include "setup/plan/memory.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "core/system/available_bytes.h"
#include "core/text/bytes_text.h"
#include "model/convert_experts.h"
#include "setup/plan/experts.h"
#include "setup/plan/nodes.h"

namespace nibble {
namespace {

// Returns how many bytes the weights save compared with BF16 because dense matrices are FP8 in the checkpoint
// and are not converted.
size_t saved_by_fp8(const Weights& weights, const DenseFormats& dense) {
  size_t saved = 0;
  const auto add = [&](Format to, std::initializer_list<const Matrix*> matrices) {
    for (const Matrix* matrix : matrices) {
      if (to != Format::kBf16 || matrix->format() != Format::kE4m3) continue;
      const auto rows = static_cast<size_t>(matrix->rows), cols = static_cast<size_t>(matrix->cols);
      saved += matrix_bytes(Format::kBf16, rows, cols) - matrix_bytes(Format::kE4m3, rows, cols);
    }
  };
  for (const LayerWeights& layer : weights.layers) {
    add(dense.qkv, {&layer.q, &layer.k, &layer.v});
    add(dense.attention_output, {&layer.o});
  }
  add(dense.unembedding, {&weights.unembedding});
  return saved;
}

// Returns the formats in which a device stores the dense matrices: the requested ones. But matrices that are
// FP8 in the checkpoint stay FP8 if no other format was requested.
DenseFormats formats_on_device(const Weights& weights, DenseFormats dense) {
  const auto keep = [](Format& format, const Matrix& matrix) {
    const auto* elements = std::get_if<Elements>(&matrix.stored);
    if (format == Format::kBf16 && elements && elements->format == Format::kE4m3) format = Format::kE4m3;
  };
  // A device stores qkv of all layers in one format, and likewise o, so the first layer decides.
  keep(dense.qkv, weights.layers.front().q);
  keep(dense.attention_output, weights.layers.front().o);
  keep(dense.unembedding, weights.unembedding);
  return dense;
}

// Returns the bytes of the weights: experts in the format in which they run, dense matrices as in OpenAI's
// checkpoints.
size_t weight_bytes(const Config& config, Format experts) {
  return nibble::weight_bytes(config) - expert_bytes(config, Format::kMxfp4) + expert_bytes(config, experts);
}

// Returns `options` with the formats in which the backend stores experts and dense layers, for a memory plan.
BackendOptions with_stored_formats(const Model& model, const ResolvedSettings& setup,
                                   BackendOptions options) {
  options.experts = experts_format(model, setup);
  if (setup.backend->device && model.weights)
    options.dense = formats_on_device(*model.weights, options.dense);
  return options;
}

}  // namespace

MemoryPlan memory_plan(const Model& model, const ResolvedSettings& setup, const BackendOptions& options) {
  return setup.backend->memory.plan(config_here(model.config, setup),
                                    with_stored_formats(model, setup, options), setup.own);
}

size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const ResolvedSettings& setup) {
  const Format experts = experts_format(model, setup);
  const size_t all = weight_bytes(config_here(model.config, setup), experts);
  // Generated or converted weights are in memory as a whole until this node's share has been copied out of
  // them.
  const size_t whole = setup.nodes ? weight_bytes(model.config, experts) : 0;
  if (!model.weights) return all + whole - plan.released_weight_bytes;
  if (!has_blocks(*model.weights))
    return all - plan.replaced_weight_bytes -
           (setup.nodes ? 0 : saved_by_fp8(*model.weights, setup.options.dense));
  if (!takes_blocks(setup)) return all + whole;
  // Subtract what dense layers save by keeping GGUF blocks. The plan already counts repacked experts.
  const auto saved = [](const Matrix& matrix) {
    const size_t elements = static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
    return num_bytes(converted_format(matrix), elements) - num_bytes(matrix.format(), elements);
  };
  size_t kept = all - plan.released_weight_bytes;
  kept -= saved(model.weights->embedding) + saved(model.weights->unembedding);
  for (const LayerWeights& layer : model.weights->layers)
    kept -= saved(layer.q) + saved(layer.k) + saved(layer.v) + saved(layer.o);
  return kept;
}

namespace {

// Returns the bytes of weights that are in memory before loading begins: files that were read into memory
// (--no-mmap), and matrices that adapters were merged into. Loading frees the parts of files that it repacks.
size_t copied_bytes(const Model& model) {
  size_t bytes = model.merged_bytes;
  if (model.weights)
    for (const auto& file : model.weights->files)
      if (file->is_copy()) bytes += file->bytes().size();
  return bytes;
}

size_t planned_bytes(const MemoryPlan& plan) {
  return plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes;
}

void log_budget(const DeviceMemory& memory, double share) {
  if (!memory.uses_host_memory) return;
  log::info(
      "the GPU uses the host's memory: weights, KV cache and workspace may take {} of {} "
      "(--gpu-memory-utilization {}); {} are available, of which {} are kept for the system",
      bytes_text(memory_budget(memory, share)), bytes_text(memory.total), share, bytes_text(memory.free),
      bytes_text(kHostReserveBytes));
}

}  // namespace

size_t needed_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& options) {
  const MemoryPlan plan = memory_plan(model, setup, options);
  size_t planned = planned_bytes(plan);
  // Add the buffers of an all-reduce, which hold the terms of every node. The plan of a GPU already includes
  // them.
  if (setup.nodes && !setup.backend->device)
    planned += setup.nodes->parts.size() * static_cast<size_t>(options.max_batch_tokens) *
               static_cast<size_t>(model.config.hidden) * sizeof(float);
  if (setup.backend->device) return planned;
  planned += kept_weight_bytes(model, plan, setup);
  return planned - std::min(planned, copied_bytes(model));
}

double memory_share(const ResolvedSettings& setup, bool uses_host_memory) {
  return setup.device_memory_share.value_or(uses_host_memory ? kHostMemoryShare : kDeviceMemoryShare);
}

size_t memory_budget(const DeviceMemory& memory, double share) {
  const auto most = static_cast<size_t>(share * static_cast<double>(memory.total));
  const size_t reserve = memory.uses_host_memory ? std::min(memory.free, kHostReserveBytes) : 0;
  return std::min(most, memory.free - reserve);
}

std::vector<size_t> memory_budgets(const ResolvedSettings& setup) {
  std::vector<size_t> budgets;
  if (setup.backend->device) {
    for (const DeviceMemory& memory : setup.backend->device->memory(setup.own)) {
      const double share = memory_share(setup, memory.uses_host_memory);
      log_budget(memory, share);
      budgets.push_back(memory_budget(memory, share));
    }
  } else {
    budgets.push_back(available_bytes());
  }
  for (size_t& budget : budgets) budget -= std::min(budget, setup.draft_model_bytes);
  return budgets;
}

int64_t least_room(const Model& model, const ResolvedSettings& setup, const BackendOptions& options,
                   std::span<const size_t> budgets) {
  std::vector<size_t> needed;
  if (setup.backend->device)
    for (const MemoryPlan& plan :
         setup.backend->device->plans(model.config, with_stored_formats(model, setup, options), setup.own))
      needed.push_back(planned_bytes(plan));
  else
    needed.push_back(needed_bytes(model, setup, options));
  NIBBLE_CHECK(needed.size() == budgets.size(), "{} plans, {} budgets", needed.size(), budgets.size());
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t n = 0; n < needed.size(); ++n)
    least = std::min(least, static_cast<int64_t>(budgets[n]) - static_cast<int64_t>(needed[n]));
  return least;
}

void check_memory(const Model& model, const ResolvedSettings& setup, const BackendOptions& options) {
  const MemoryPlan plan = memory_plan(model, setup, options);
  const size_t weights = kept_weight_bytes(model, plan, setup) + plan.weight_bytes;
  const size_t needed = needed_bytes(model, setup, options) + setup.draft_model_bytes;
  const size_t available = available_bytes();
  if (needed <= available) return;
  throw InputError(
      "{} needs {} of memory (weights {}, KV cache {}, workspace {}{}), but only {} is available: {}; "
      "'nibble inspect' shows the plan",
      model.source.name, bytes_text(needed), bytes_text(weights), bytes_text(plan.kv_bytes),
      bytes_text(plan.workspace_bytes),
      setup.draft_model_bytes > 0 ? fmt::format(", draft model {}", bytes_text(setup.draft_model_bytes)) : "",
      bytes_text(available),
      weights > available ? fmt::format("the weights alone do not fit{}", smaller_experts(model, setup))
                          : "reduce --context, --max-batch-tokens or --max-sequences");
}

}  // namespace nibble
