#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backend/cuda/chip/images.h"
#include "backend/cuda/chip/stream_timer.h"
#include "backend/cuda/draft/head_drafter.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/step_graph.h"
#include "core/check.h"
#include "core/error.h"
#include "core/log.h"

namespace nibble::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Weights& weights, const BackendOptions& options, const CudaOptions& own, Plan plan);

  std::string_view name() const override { return "cuda"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return choices(plan_); }
  std::vector<Counter> counters() const override { return graphs_.counters(); }
  StepResult step(const Batch& batch) override {
    launch(batch);
    return wait();
  }
  int steps_ahead() const override { return 1; }
  void launch(const Batch& batch) override;
  StepResult wait() override;
  std::vector<TimedWork> profile(const Batch& batch) override;

 private:
  Model model() const { return {config_, weights_, kv_}; }
  void enqueue_layers(const StepShape& shape) {
    Tap tap;
    if (drafter_)
      tap = [&](size_t layer, const ResidualInput& x) {
        drafter_->keep(stream_, layer, shape.num_tokens, x);
      };
    run_layers(model(), plan_, *work_, shape, stream_, tap);
  }
  void enqueue_unembed(const StepShape& shape, int first, int count) {
    run_unembed(model(), plan_, *work_, shape, first, count, stream_);
  }
  void enqueue_sample(const StepShape& shape, int first, int count) {
    run_sample(model(), plan_, *work_, shape, first, count, stream_);
  }
  void enqueue_draft(const StepShape& shape) {
    if (drafter_) drafter_->draft(stream_, shape, *work_);
  }
  // A graph ends before the sampling where that waits for masks.
  void enqueue_recorded(const StepShape& shape) {
    enqueue_layers(shape);
    enqueue_unembed(shape, 0, shape.num_outputs);
    if (shape.have_masks) return;
    enqueue_sample(shape, 0, shape.num_outputs);
    enqueue_draft(shape);
  }
  // A step that was launched.
  struct Launched {
    PinnedBuffer results;
    int num_outputs{0};
    std::vector<float> logits;
    DraftDownload drafts;
    OwnedEvent end;
  };
  void download_logits(int count, std::vector<float>& logits);

  Config config_;
  Plan plan_;
  DeviceWeights weights_;
  OwnedStream stream_;
  KvStorage kv_;
  OwnedWorkspace work_;
  InputUpload input_;
  PinnedBuffer pinned_logits_;
  std::array<Launched, 2> launched_;  // in turn
  size_t num_launched_{0}, num_waited_for_{0};
  StepGraphs graphs_;
  std::optional<HeadDrafter> drafter_;
};

CudaBackend::CudaBackend(const Weights& weights, const BackendOptions& options, const CudaOptions& own,
                         Plan plan)
    : config_(weights.config),
      plan_(std::move(plan)),
      weights_(upload(weights, whole_of(weights.config), options.dense, options.num_threads)),
      kv_(config_, options, stream_),
      work_(config_, options, own, stream_),
      input_(config_, options, work_->input),
      pinned_logits_(static_cast<size_t>(kOutputRows) * static_cast<size_t>(config_.vocab) * sizeof(float)),
      graphs_(own.has_graphs) {
  for (Launched& step : launched_)
    step.results = PinnedBuffer(static_cast<size_t>(options.max_batch_tokens) * sizeof(SampleResult));
  if (options.draft_head) drafter_.emplace(weights, weights_, options, plan_.target(), stream_);
  prepare_kernels();
  stream_.wait();
}

// Appends the logits of the outputs that were computed last.
void CudaBackend::download_logits(int count, std::vector<float>& logits) {
  const size_t num_logits = static_cast<size_t>(count) * static_cast<size_t>(config_.vocab);
  const auto* downloaded = pinned_logits_.as<float>();
  check(cudaMemcpyAsync(pinned_logits_.as<void>(), work_->logits, num_logits * sizeof(float),
                        cudaMemcpyDeviceToHost, stream_),
        "copying logits");
  stream_.wait();
  logits.insert(logits.end(), downloaded, downloaded + num_logits);
}

// Logits are for tests and tools: who wants them waits for the step here.
void CudaBackend::launch(const Batch& batch) {
  NIBBLE_CHECK(num_launched_ - num_waited_for_ < launched_.size(), "nobody waits for the steps");
  Launched& step = launched_[num_launched_ % launched_.size()];
  step.logits.clear();
  const StepShape shape = input_.upload(batch, stream_);
  step.num_outputs = 0;  // without those of spare rows
  for (const Run& run : batch.runs) step.num_outputs += static_cast<int>(run.outputs.size());
  if (shape.is_recorded()) {
    graphs_.launch(shape, stream_, [&] { enqueue_recorded(shape); });
    if (shape.have_masks) {
      input_.upload_masks(stream_);
      enqueue_sample(shape, 0, shape.num_outputs);
      enqueue_draft(shape);
    }
    if (batch.want_logits) download_logits(step.num_outputs, step.logits);
  } else if (shape.num_tokens > 0) {
    graphs_.count_step_without();
    enqueue_layers(shape);
    input_.upload_masks(stream_);
    for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
      const int count = std::min(kOutputRows, shape.num_outputs - first);
      enqueue_unembed(shape, first, count);
      enqueue_sample(shape, first, count);
      if (batch.want_logits) download_logits(count, step.logits);
    }
    enqueue_draft(shape);
  }
  if (step.num_outputs > 0)
    check(cudaMemcpyAsync(step.results.as<void>(), work_->results,
                          static_cast<size_t>(step.num_outputs) * sizeof(SampleResult),
                          cudaMemcpyDeviceToHost, stream_),
          "copying tokens");
  if (drafter_) drafter_->download(stream_, batch, shape, step.drafts);
  check(cudaEventRecord(step.end, stream_), "launching a step");
  ++num_launched_;
}

StepResult CudaBackend::wait() {
  NIBBLE_CHECK(num_waited_for_ < num_launched_, "no step was launched");
  Launched& step = launched_[num_waited_for_++ % launched_.size()];
  check(cudaEventSynchronize(step.end), "running a step");
  StepResult result{.outputs = {}, .logits = std::move(step.logits)};
  for (int i = 0; i < step.num_outputs; ++i)
    result.outputs.push_back(to_sampled(step.results.as<SampleResult>()[i]));
  if (drafter_) result.drafts = drafter_->read(step.drafts);
  return result;
}

std::vector<TimedWork> CudaBackend::profile(const Batch& batch) {
  Recorder recorder;
  const StepShape shape = input_.upload(batch, stream_);
  if (shape.num_tokens == 0) return {};
  NIBBLE_CHECK(!shape.have_masks, "a step with masks is not profiled");
  recorder.clear(stream_);
  stream_.record(&recorder);
  if (shape.is_recorded() && graphs_.are_on()) {
    const StepGraph graph(stream_, [&] { enqueue_recorded(shape); });
    graph.launch(stream_);
    stream_.wait();
  } else {
    enqueue_layers(shape);
    for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
      const int count = std::min(kOutputRows, shape.num_outputs - first);
      enqueue_unembed(shape, first, count);
      enqueue_sample(shape, first, count);
    }
    enqueue_draft(shape);
  }
  stream_.record(nullptr);
  stream_.wait();
  return recorder.read();
}

}  // namespace

std::string why_not() { return why_no_device(); }

MemoryPlan plan(const Config& config, const BackendOptions& options, const CudaOptions& own) {
  return memory_plan(config, options, own);
}

std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CudaOptions& own) {
  if (const std::string missing = why_not(); !missing.empty())
    throw InputError("--backend cuda: {}", missing);
  check_images(device_caps().name, device_caps().compute_capability, images(), own.may_compile);
  const Config& config = weights->config;
  check_shapes(config, weights->source);
  Plan plan(config, options, target_of(device_caps(), own), weights->source, own.prompt_activations);
  if (const std::string reason = why_not_budget(plan, config, device_caps()); !reason.empty())
    throw InputError("--backend cuda: {}", reason);
  check_draft_head(options, plan.target());
  if (const std::string reason =
          why_not_memory(config, weights->source, options, own, free_device_bytes(device_caps()));
      !reason.empty())
    throw InputError("{}", reason);
  const Target& target = plan.target();
  log::info("kernels of {} for {}: {} KB of shared memory per CTA, {} multiprocessors", name(target.family),
            device_caps().name, kilobytes(target.budget), target.num_multiprocessors);
  if (own.prompt_activations && !target.has_block_products)
    log::warn(
        "--prompt-activations: {} has no instruction for block-scaled products: prompts in {} run by its "
        "twin in "
        "software, which is slow",
        device_caps().name, nibble::name(format_of(*own.prompt_activations)));
  return std::make_unique<CudaBackend>(*weights, options, own, std::move(plan));
}

RemoteKernels kernels_on(std::string_view gpu, const Config& config, const BackendOptions& options,
                         const CudaOptions& own, std::string_view source) {
  const DeviceCaps caps = known_gpu(gpu);
  check_shapes(config, source);
  const Plan plan(config, options, target_of(caps, own), source, own.prompt_activations);
  check_draft_head(options, plan.target());
  std::string refusal = why_not_budget(plan, config, caps);
  const std::string memory = why_not_memory(config, source, options, own, caps.total_bytes);
  if (!refusal.empty() && !memory.empty()) refusal += "; ";
  return {describe(caps), refusal + memory, choices(plan)};
}

}  // namespace nibble::cuda
