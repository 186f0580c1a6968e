#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/changed_files.h"
#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/draft/head_drafter.h"
#include "backend/cpu/forward.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/traced_values.h"
#include "backend/draft_tree.h"
#include "backend/sample.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "model/convert_experts.h"

namespace nibble::cpu {
namespace {

int num_threads_of(const BackendOptions& options) {
  return options.num_threads > 0 ? options.num_threads : num_usable_cores();
}

// Returns whether experts of this format are packed in strips. Strips take int8 activations.
bool is_for_strips(Format experts) { return experts == Format::kMxfp4 || experts == Format::kQ8_0; }

void check_fits(const PackedModel& model) {
  const Weights& weights = *model.weights;
  const Config& config = weights.config;
  if (config.head_dim > kMaxHeadDim)
    throw InputError(
        "{}: head_dim {} is more than the {} that the CPU backend can do: try --backend reference",
        weights.source, config.head_dim, kMaxHeadDim);
  const Kernels kernels = choose_kernels(Isa::kPortable);
  const auto check = [&](const char* what, const Matrix& matrix) {
    if (matrix.is_gone()) return;  // packed into strips, for which every instruction set has a kernel
    if (!std::holds_alternative<Elements>(matrix.stored) || !kernels.dot(matrix.format()))
      throw InputError(
          "{}: {} is {}, for which the CPU backend has no kernel (it takes BF16, FP8 and MXFP4): try "
          "--backend reference",
          weights.source, what, stored_name(matrix));
  };
  if (!weights.embedding.blocks() && weights.embedding.format() != Format::kBf16)
    throw InputError("{}: the embedding is {}, the CPU backend takes BF16: try --backend reference",
                     weights.source, stored_name(weights.embedding));
  check("the unembedding", weights.unembedding);
  for (const LayerWeights& layer : weights.layers) {
    check("q", layer.q);
    check("k", layer.k);
    check("v", layer.v);
    check("o", layer.o);
    check("the router", layer.router);
    check("gate_up", layer.gate_up.first);
    check("down", layer.down.first);
  }
}

PackedModel prepare(std::shared_ptr<const Weights> weights, const BackendOptions& options, bool int8,
                    const Kernels& kernels, ThreadPool& pool) {
  if (!int8) return {quantise_dense(std::move(weights), options.dense, pool), {}, {}};
  return pack_model(std::move(weights), options.dense, kernels.strip(Format::kMxfp4)->strip_rows, pool,
                    options.report_upload);
}

// Returns whether the experts of some layer are not in strips.
bool has_float_experts(const PackedModel& model) {
  return model.layers.empty() ||
         std::ranges::any_of(model.layers, [](const PackedLayer& layer) { return !layer.experts; });
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(std::shared_ptr<const Weights> weights, const BackendOptions& options,
             const CpuOptions& cpu_options)
      : pool_(options.num_threads),
        isa_(isa_of(cpu_options.isa)),
        machine_{choose_kernels(isa_, cpu_options.tuning.tile_from_tokens), pool_, cpu_options.tuning},
        model_(prepare(std::move(weights), options, takes_int8(cpu_options), machine_.kernels, pool_)),
        max_batch_tokens_(options.max_batch_tokens),
        rope_(rope_frequencies(config().rope, config().head_dim)),
        kv_(config(), options.kv_format, options.num_pages),
        adapters_(options.adapters ? in_split_order(*options.adapters) : RequestAdapters{}),
        activations_(make_activations(config(), options.max_batch_tokens, pool_.num_threads(),
                                      {.int8 = takes_int8(cpu_options),
                                       .float_experts = has_float_experts(model_),
                                       .adapter_rank = max_rank(adapters_)})),
        links_(options.links) {
    check_fits(model_);
    NIBBLE_CHECK(!links_ || !options.draft_head, "a draft head beside a rank");
    NIBBLE_CHECK(!links_ || adapters_.empty(), "adapters beside a rank");
    if (options.draft_head) drafter_.emplace(options, *model_.weights, machine_, takes_int8(cpu_options));
  }

  std::string_view name() const override { return "cpu"; }
  const Config& config() const override { return model_.weights->config; }
  std::vector<KernelChoice> kernels() const override;
  bool takes_trees() const override { return true; }
  StepResult step(const Batch& batch) override { return run(batch, nullptr); }
  std::vector<TimedWork> profile(const Batch& batch) override {
    std::vector<TimedWork> work;
    run(batch, &work);
    return work;
  }
  std::vector<TracedResult> trace(const Batch& batch) override {
    std::vector<TracedResult> traced;
    run(batch, nullptr, &traced);
    return traced;
  }
  void retune(const CpuTuning& tuning) {
    machine_.tuning = tuning;
    machine_.kernels = choose_kernels(isa_, tuning.tile_from_tokens);
  }

 private:
  StepResult run(const Batch& batch, std::vector<TimedWork>* work, std::vector<TracedResult>* traced = {});

  ThreadPool pool_;
  Isa isa_;
  Machine machine_;
  PackedModel model_;
  int max_batch_tokens_;
  RopeFrequencies rope_;
  KvCache kv_;
  RequestAdapters adapters_;  // in split order
  Activations activations_;
  std::shared_ptr<RankLinks> links_;
  std::optional<HeadDrafter> drafter_;
};

// Lists the kernels by operation: one for each weight format that some layer has.
std::vector<KernelChoice> CpuBackend::kernels() const {
  const Kernels& kernels = machine_.kernels;
  const Weights& weights = *model_.weights;
  std::vector<KernelChoice> choices;
  const auto add = [&](const KernelChoice& choice) {
    if (std::ranges::find(choices, choice) == choices.end()) choices.push_back(choice);
  };
  const auto add_strips = [&](Operation operation, const PackedMatrix& matrix) {
    const Kernels::Strips& rows = kernels.both_strips(matrix.format);
    const StripRow &one = *rows.of_one, &many = *rows.of_many;
    const std::string format(nibble::name(matrix.format));
    if (rows.many > 1) add({operation, format, "INT8", one.name, one.reason, 1, rows.many - 1});
    add({operation, format, "INT8", many.name, rows.many == many.from_tokens ? many.reason : "nibble tune",
         rows.many, kAnyRows});
  };
  const auto add_linear = [&](Operation operation, const Matrix& matrix, const PackedMatrix* packed) {
    if (packed) return add_strips(operation, *packed);
    const DotRow& row = *kernels.dot(matrix.format());
    add({operation, std::string(stored_name(matrix)), "F32", row.name, row.reason});
  };
  const auto in_each_layer = [&](const auto& add_of) {
    for (size_t n = 0; n < weights.layers.size(); ++n)
      add_of(weights.layers[n], model_.layers.empty() ? nullptr : &model_.layers[n]);
  };
  const auto if_any = [](const std::optional<PackedMatrix>& matrix) { return matrix ? &*matrix : nullptr; };

  add({Operation::kEmbed, std::string(stored_name(weights.embedding)), "F32", "plain C++",
       "a row per token"});
  in_each_layer([&](const LayerWeights& layer, const PackedLayer* packed) {
    add_linear(Operation::kQkv, layer.q, packed ? if_any(packed->qkv) : nullptr);
  });
  const Format kv = kv_.layer(0).format;
  const DotRow& dot = *kernels.dot(kv);
  const WeighRow& weigh = *kernels.weigh(kv);
  add({Operation::kAttend, std::string(nibble::name(kv)), "F32", dot.name, dot.reason});
  add({Operation::kAttend, std::string(nibble::name(kv)), "F32", weigh.name, weigh.reason});
  in_each_layer([&](const LayerWeights& layer, const PackedLayer* packed) {
    add_linear(Operation::kProject, layer.o, packed ? if_any(packed->o) : nullptr);
  });
  in_each_layer([&](const LayerWeights& layer, const PackedLayer*) {
    add_linear(Operation::kRoute, layer.router, nullptr);
  });
  in_each_layer([&](const LayerWeights& layer, const PackedLayer* packed) {
    add_linear(Operation::kExpertsUp, layer.gate_up.first,
               packed && packed->experts ? &packed->experts->gate_up : nullptr);
  });
  in_each_layer([&](const LayerWeights& layer, const PackedLayer* packed) {
    add_linear(Operation::kExpertsDown, layer.down.first,
               packed && packed->experts ? &packed->experts->down : nullptr);
  });
  add_linear(Operation::kUnembed, weights.unembedding, if_any(model_.unembedding));
  return choices;
}

struct Output {
  const OutputRow* row;
  int position;
};

StepResult CpuBackend::run(const Batch& batch, std::vector<TimedWork>* work,
                           std::vector<TracedResult>* traced) {
  WorkClock clock(work);
  const std::vector<BatchRow> rows = rows_of(batch);
  if (traced)
    clock.set_on_end([&, layer = -1](Operation operation) mutable {
      if (operation == Operation::kUnembed) return;  // traced further down: logits come in blocks of rows
      layer += operation == Operation::kQkv;
      traced->push_back(
          {layer, operation, traced_values({rows, config(), kv_, activations_}, layer, operation)});
    });
  NIBBLE_CHECK(std::ssize(rows) <= max_batch_tokens_, "{} rows, {} allowed", rows.size(), max_batch_tokens_);
  std::vector<int> output_rows;  // indices into `rows`
  std::vector<Output> outputs;
  int first_row = 0;
  for (const Run& run : batch.runs) {
    NIBBLE_CHECK(!run.adapter || static_cast<size_t>(*run.adapter) < adapters_.size(), "adapter {} of {}",
                 static_cast<size_t>(*run.adapter), adapters_.size());
    for (const OutputRow& output : run.outputs) {
      output_rows.push_back(first_row + output.token_index);
      outputs.push_back({&output, rows[output_rows.back()].position + 1});
    }
    first_row += static_cast<int>(run.tokens.size());
  }

  StepResult result;
  result.outputs.resize(outputs.size());
  const auto take_logits = [&](ptrdiff_t first, View<float, 2> logits) {
    const ptrdiff_t vocab = logits.shape[1];
    if (batch.want_logits)
      result.logits.insert(result.logits.end(), logits.data, logits.data + logits.shape[0] * vocab);
    for_each(machine_, logits.shape[0], static_cast<double>(logits.shape[0] * vocab), [&](ptrdiff_t o, int) {
      const size_t index = first + o;
      if (outputs[index].row->sample)
        result.outputs[index] =
            sample({logits.row(o), static_cast<size_t>(vocab)}, *outputs[index].row, outputs[index].position);
    });
  };
  std::function<void(int, View<const float, 2>)> tap;
  if (drafter_) {
    drafter_->start(std::ssize(rows));
    tap = [&](int layer, View<const float, 2> x) { drafter_->keep(layer, x); };
  }
  // Ranks never give a step up, because all ranks must make the same calls of RankLinks.
  const StepStop stop(links_ ? nullptr : batch.is_unneeded);
  Machine machine = machine_;
  machine.stop = &stop;
  forward({machine, model_, rope_, rows, output_rows, kv_, activations_, take_logits, clock, tap,
           links_.get(), adapters_});
  check_unchanged(model_.weights->files);
  if (traced) traced->push_back({-1, Operation::kUnembed, result.logits});
  result.kept = keep_right_drafts(batch, result.outputs,
                                  [&](const Run& run, int from, int to) { kv_.move(run, from, to); });
  if (drafter_) {
    result.drafts = drafter_->draft(batch, result.outputs);
    clock.lap(Operation::kEmbed, "draft head", /*is_draft=*/true);
  }
  return result;
}

}  // namespace

bool takes_int8(const CpuOptions& options) {
  if (options.expert_activations == ExpertActivations::kDefault)
    return isa_of(options.isa) != Isa::kPortable;  // portable int8 is no faster than float
  return options.expert_activations == ExpertActivations::kInt8;
}

bool runs_experts(Format format, const CpuOptions& options) {
  if (format == Format::kQ8_0) return takes_int8(options);  // runs only in strips
  return format == Format::kMxfp4 || format == Format::kBf16 || format == Format::kE4m3;
}

MemoryPlan plan(const Config& config, const BackendOptions& options, const CpuOptions& cpu_options) {
  const ConvertedBytes converted = converted_bytes(config, options.dense);
  const bool int8 = takes_int8(cpu_options);
  const bool in_strips = int8 && is_for_strips(options.experts);
  const size_t packed = in_strips ? expert_bytes(config, options.experts) : 0;
  // The adapters are in memory twice: as read, and in split order.
  const size_t adapter_bytes =
      options.adapters ? num_bytes(*options.adapters) + num_bytes_in_split_order(*options.adapters) : 0;
  MemoryPlan plan{.weight_bytes = converted.after + packed +
                                  adapter_bytes,  // other weights are read from the mapped file
                  .replaced_weight_bytes = converted.before + packed,
                  .released_weight_bytes = packed,
                  .kv_bytes = KvCache::num_bytes(config, options.kv_format, options.num_pages),
                  .workspace_bytes = activations_bytes(
                      config, options.max_batch_tokens, num_threads_of(options),
                      {.int8 = int8,
                       .float_experts = !in_strips,
                       .adapter_rank = options.adapters ? max_rank(*options.adapters) : 0})};
  if (options.draft_head) {
    const DraftHeadConfig& head = options.draft_head->config;
    plan.weight_bytes += HeadDrafter::weight_bytes(head, options.draft_head_format);
    plan.kv_bytes += HeadDrafter::kv_bytes(head, options.num_pages);
    plan.workspace_bytes += HeadDrafter::workspace_bytes(head, options.max_batch_tokens);
  }
  return plan;
}

void retune(Backend& backend, const CpuTuning& tuning) { static_cast<CpuBackend&>(backend).retune(tuning); }

std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CpuOptions& cpu_options) {
  return std::make_unique<CpuBackend>(std::move(weights), options, cpu_options);
}

}  // namespace nibble::cpu
