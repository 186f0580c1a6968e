#include "setup/plan/experts.h"

#include <algorithm>
#include <utility>

#include "core/errors/error.h"
#include "core/text/bytes_text.h"
#include "core/threads/thread_pool.h"
#include "model/convert_blocks.h"
#include "model/convert_experts.h"
#include "setup/plan/adapters.h"

namespace nibble {
namespace {

ExpertRules rules_of(const ResolvedSettings& setup, std::optional<Format> otherwise = {}) {
  const BackendRow& backend = *setup.backend;
  const auto runs = [&setup, &backend](Format format) {
    // A node's share can be cut only from MXFP4 and BF16: not from GGUF's blocks, nor from FP8, which has a
    // scale per row.
    if (setup.nodes && format != Format::kMxfp4 && format != Format::kBf16) return false;
    return backend.making.runs_experts(format, setup.own);
  };
  // Only the reference runs float32 experts, and it reads blocks of every type.
  const bool takes_any_blocks = takes_blocks(setup) && runs(Format::kF32);
  return {.asked = setup.experts,
          .otherwise = otherwise && runs(*otherwise) ? otherwise : std::nullopt,
          .runs = runs,
          .takes_any_blocks = takes_any_blocks,
          .backend = backend.name};
}

bool has_stored_experts(const Weights& weights) {
  return std::ranges::any_of(weights.layers, [](const LayerWeights& layer) {
    return layer.gate_up.first.experts() || layer.down.first.experts();
  });
}

// Opens the adapters and decides the format of experts. The caller merges the adapters into dense matrices
// afterwards, because that takes time, and decide_experts() may refuse the model.
std::vector<ScaledAdapter> open_adapters_of_experts(Model& model, const ResolvedSettings& setup,
                                                    std::optional<Format> otherwise = {}) {
  std::vector<ScaledAdapter> adapters = open_adapters(model, setup);
  if (!adapters.empty()) model.weights = with_expert_updates(model.weights, adapters);
  decide_experts(model, setup, otherwise);
  return adapters;
}

Model open_and_merge(const std::string& argument, const ResolvedSettings& setup,
                     std::optional<Format> otherwise) {
  Model model = open_model(argument, setup.places);
  const std::vector<ScaledAdapter> adapters = open_adapters_of_experts(model, setup, otherwise);
  merge_into_dense(model, adapters, setup);
  return model;
}

}  // namespace

Model open_model_for(const std::string& argument, const ResolvedSettings& setup) {
  return open_and_merge(argument, setup, {});
}

Model open_unquantised_for(const std::string& argument, const ResolvedSettings& setup) {
  return open_and_merge(argument, setup, Format::kBf16);
}

Model describe_model_for(const std::string& argument, const ResolvedSettings& setup) {
  Model model = describe_model(argument, setup.places);
  const std::vector<ScaledAdapter> adapters = open_adapters_of_experts(model, setup);
  model.weights = describe_merged(model.weights, adapters);
  return model;
}

void decide_experts(Model& model, const ResolvedSettings& setup, std::optional<Format> otherwise) {
  const ExpertRules rules = rules_of(setup, otherwise);
  if (!model.weights) {
    if (setup.experts && setup.backend->device && *setup.experts != Format::kMxfp4)
      throw InputError("--experts: the {} backend makes synthetic experts in MXFP4", rules.backend);
    if (setup.experts) check_asked(rules, model.config);
    return;
  }
  Weights decided = *model.weights;
  // Only the reference has kernels for matrices and experts of F32.
  const bool has_f32 =
      !setup.backend->making.runs_experts(Format::kF32, setup.own) && describe_f32_as_blocks(decided);
  const bool is_foreign = has_stored_experts(decided);
  if (!is_foreign && !setup.experts) {
    if (has_f32) model.weights = std::make_shared<const Weights>(std::move(decided));
    return;
  }
  ThreadPool pool(setup.threads.value_or(0));
  const ReportProgress report =
      is_foreign ? setup.show_progress("checking the experts of " + model.source.name, "layers")
                 : ReportProgress{};
  decide_experts(decided, rules, pool, report);
  model.weights = std::make_shared<const Weights>(std::move(decided));
}

Format experts_format(const Model& model, const ResolvedSettings& setup) {
  if (!model.weights) return setup.experts.value_or(Format::kMxfp4);
  Format largest = Format::kMxfp4;
  for (const LayerWeights& layer : model.weights->layers)
    for (const Matrix* matrix : {&layer.gate_up.first, &layer.down.first})
      if (num_bytes(matrix->format(), 32) > num_bytes(largest, 32)) largest = matrix->format();
  return largest;
}

std::string smaller_experts(const Model& model, const ResolvedSettings& setup) {
  const size_t now = expert_bytes(model.config, experts_format(model, setup)),
               least = expert_bytes(model.config, Format::kMxfp4);
  if (now <= least) return {};
  return fmt::format("; --experts mxfp4 makes the experts {} instead of {}", bytes_text(least),
                     bytes_text(now));
}

std::shared_ptr<const Weights> converted(std::shared_ptr<const Weights> weights,
                                         const ResolvedSettings& setup, const std::string& name,
                                         const decltype(ResolvedSettings::show_progress)& report) {
  const bool has_experts = has_stored_experts(*weights);
  if (!has_experts && !has_blocks(*weights)) return weights;
  ThreadPool pool(setup.threads.value_or(0));
  const auto& show = report ? report : setup.show_progress;
  if (has_experts)
    weights = convert_experts(std::move(weights), pool, show("converting the experts of " + name, "layers"));
  if (!has_blocks(*weights)) return weights;
  return with_elements(std::move(weights), takes_blocks(setup), pool, show("converting " + name, {}));
}

std::shared_ptr<const Weights> synthetic_with_experts(Weights made, const ResolvedSettings& setup) {
  ThreadPool pool(setup.threads.value_or(0));
  if (setup.experts) nibble::decide_experts(made, rules_of(setup), pool);
  return convert_experts(std::make_shared<const Weights>(std::move(made)), pool);
}

}  // namespace nibble
