#include "reference/reference_backend.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/changed_files.h"
#include "backend/draft_tree.h"
#include "backend/sample.h"
#include "core/errors/error.h"
#include "core/threads/thread_pool.h"
#include "reference/draft_head.h"
#include "reference/forward.h"

namespace nibble::reference {
namespace {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(std::shared_ptr<const Weights> weights, const BackendOptions& options)
      : options_(options),
        pool_(options.num_threads),
        weights_(quantise_dense(std::move(weights), options.dense, pool_)),
        rope_(make_rope_table(config().rope, config().head_dim)),
        kv_(config(), options.num_pages) {
    if (options.draft_head) drafter_.emplace(*options.draft_head, *weights_, options.num_pages);
  }

  std::string_view name() const override { return "reference"; }
  const Config& config() const override { return weights_->config; }
  std::vector<KernelChoice> kernels() const override;
  bool takes_trees() const override { return true; }
  StepResult step(const Batch& batch) override { return run(batch, nullptr); }
  std::vector<TracedResult> trace(const Batch& batch) override;

 private:
  std::span<const RequestAdapter> adapters() const {
    return options_.adapters ? std::span<const RequestAdapter>(*options_.adapters)
                             : std::span<const RequestAdapter>();
  }
  StepResult run(const Batch& batch, std::vector<TracedResult>* traced);
  std::vector<float> values_of(int layer, Operation operation, const Activations& a,
                               std::span<const BatchRow> rows) const;

  BackendOptions options_;
  ThreadPool pool_;
  std::shared_ptr<const Weights> weights_;
  RopeTable rope_;
  KvCache kv_;
  std::optional<HeadDrafter> drafter_;
};

std::vector<KernelChoice> ReferenceBackend::kernels() const {
  const LayerWeights& layer = weights_->layers.front();
  std::vector<KernelChoice> rows;
  const auto add = [&](Operation operation, std::string_view weights) {
    rows.push_back(
        {operation, std::string(weights), "F32", "plain loops", "the only kernel of the reference"});
  };
  add(Operation::kEmbed, stored_name(weights_->embedding));
  add(Operation::kQkv, stored_name(layer.q));
  add(Operation::kAttend, nibble::name(Format::kF32));
  add(Operation::kProject, stored_name(layer.o));
  add(Operation::kRoute, stored_name(layer.router));
  add(Operation::kExpertsUp, stored_name(layer.gate_up.first));
  add(Operation::kExpertsDown, stored_name(layer.down.first));
  add(Operation::kUnembed, stored_name(weights_->unembedding));
  return rows;
}

std::vector<TracedResult> ReferenceBackend::trace(const Batch& batch) {
  std::vector<TracedResult> traced;
  run(batch, &traced);
  return traced;
}

// Returns the values of an operation's TracedResult.
std::vector<float> ReferenceBackend::values_of(int layer, Operation operation, const Activations& a,
                                               std::span<const BatchRow> rows) const {
  const int head_dim = config().head_dim;
  std::vector<float> values;
  const auto add = [&](const float* from, int count) { values.insert(values.end(), from, from + count); };
  for (size_t t = 0; t < rows.size(); ++t) {
    if (operation == Operation::kQkv) {
      const LayerKv& kv = kv_.layer(static_cast<size_t>(layer));
      add(&a.q.view()(t, 0, 0), config().num_heads * head_dim);
      for (int head = 0; head < config().num_kv_heads; ++head)
        add(kv.key(rows[t], head, rows[t].position), head_dim);
      for (int head = 0; head < config().num_kv_heads; ++head)
        add(kv.value(rows[t], head, rows[t].position), head_dim);
    } else if (operation == Operation::kAttend) {
      add(a.attended.view().row(t), config().num_heads * head_dim);
    } else if (operation == Operation::kRoute) {
      std::vector<float> weights(static_cast<size_t>(config().num_experts));
      for (int k = 0; k < config().experts_per_token; ++k)
        weights[a.chosen.view()(t, k)] = a.chosen_weights.view()(t, k);
      add(weights.data(), config().num_experts);
    } else {
      add(a.x.view().row(t), config().hidden);
    }
  }
  return values;
}

StepResult ReferenceBackend::run(const Batch& batch, std::vector<TracedResult>* traced) {
  const std::vector<BatchRow> rows = rows_of(batch);
  NIBBLE_CHECK(std::ssize(rows) <= options_.max_batch_tokens, "{} rows, {} allowed", rows.size(),
               options_.max_batch_tokens);
  std::vector<int> outputs;  // indices into `rows`
  int first_row = 0;
  for (const Run& run : batch.runs) {
    for (const OutputRow& output : run.outputs) outputs.push_back(first_row + output.token_index);
    first_row += static_cast<int>(run.tokens.size());
  }

  const ptrdiff_t vocab = config().vocab;
  StepResult result;
  result.logits.resize(outputs.size() * vocab);
  const View<float, 2> logits(result.logits.data(), {std::ssize(outputs), vocab});
  const Trace trace = drafter_ ? drafter_->trace(std::ssize(rows)) : Trace{};
  const Observe observe = [&](int layer, Operation operation, const Activations& a) {
    if (batch.is_unneeded && *batch.is_unneeded) throw StepCut();
    if (traced) traced->push_back({layer, operation, values_of(layer, operation, a, rows)});
  };
  forward({*weights_, rope_, rows, outputs, kv_, logits, trace, &pool_, {}, {}, observe, adapters()});
  check_unchanged(weights_->files);
  if (traced) traced->push_back({-1, Operation::kUnembed, result.logits});

  std::vector<float> scratch(vocab);
  for (const Run& run : batch.runs)
    for (const OutputRow& output : run.outputs) {
      const size_t index = result.outputs.size();
      SampledToken token;
      if (output.sample) {
        std::copy_n(logits.row(static_cast<ptrdiff_t>(index)), vocab, scratch.begin());
        token = sample(scratch, output, rows[static_cast<size_t>(outputs[index])].position + 1);
      }
      result.outputs.push_back(std::move(token));
    }
  if (!batch.want_logits) result.logits.clear();
  result.kept = keep_right_drafts(batch, result.outputs,
                                  [&](const Run& run, int from, int to) { kv_.move(run, from, to); });
  if (drafter_) result.drafts = drafter_->draft(batch, rows, result.outputs, &pool_);
  return result;
}

}  // namespace

void check(const BackendOptions& options) {
  // The reference always stores keys and values in float32. It accepts BF16, whose results are close to that,
  // but refuses FP8, whose results would differ most.
  if (options.kv_format == Format::kE4m3)
    throw InputError(
        "--kv-dtype fp8: the reference backend keeps keys and values in float32; use --backend cpu");
}

MemoryPlan plan(const Config& config, const BackendOptions& options) {
  check(options);
  const ConvertedBytes converted = converted_bytes(config, options.dense);
  const size_t hidden = config.hidden, intermediate = config.intermediate,
               experts_per_token = config.experts_per_token;
  const size_t q = size_t{1} * config.num_heads * config.head_dim,
               kv = size_t{1} * config.num_kv_heads * config.head_dim;
  // Peak memory per row, in floats: the activations of the step, plus the larger of two needs (qkv, or the
  // experts with a copy of each chosen expert's output), plus the rows for the unembedding and the logits.
  const size_t step_floats = 2 * hidden + 2 * q + 2 * experts_per_token;
  const size_t qkv_floats = hidden + 2 * kv;
  const size_t expert_floats = experts_per_token * (3 * hidden + 3 * intermediate);
  const size_t output_floats = hidden + config.vocab;
  size_t row_floats = step_floats + std::max(qkv_floats, expert_floats) + output_floats;
  size_t kv_bytes = KvCache::num_bytes(config, options.num_pages);
  // Per row of a draft head: outputs of three layers (3), features (1), the input of its layer (2) and the
  // arrays from which this input is made (3).
  if (options.draft_head) {
    row_floats += 9 * hidden;
    kv_bytes += HeadDrafter::num_bytes(options.draft_head->config, options.num_pages);
  }
  const size_t adapter_bytes = options.adapters ? num_bytes(*options.adapters) : 0;
  // Weights that are not converted take no memory of their own: they are read from the mapped file.
  return {.weight_bytes = converted.after + adapter_bytes,
          .replaced_weight_bytes = converted.before,
          .kv_bytes = kv_bytes,
          .workspace_bytes = options.max_batch_tokens * row_floats * sizeof(float)};
}

std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options) {
  check(options);
  return std::make_unique<ReferenceBackend>(std::move(weights), options);
}

}  // namespace nibble::reference
