#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cuda/chip/images.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/step_graph.h"
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
  StepResult step(const Batch& batch) override;
  std::vector<TimedWork> profile(const Batch& batch) override;

 private:
  Model model() const { return {config_, weights_, kv_}; }
  void enqueue_layers(const StepShape& shape) { run_layers(model(), plan_, *work_, shape, stream_); }
  void enqueue_unembed(const StepShape& shape, int first, int count) {
    run_unembed(model(), plan_, *work_, shape, first, count, stream_);
  }
  void enqueue_sample(const StepShape& shape, int first, int count) {
    run_sample(model(), plan_, *work_, shape, first, count, stream_);
  }
  // A graph ends before the sampling where that waits for masks.
  void enqueue_decode(const StepShape& shape) {
    enqueue_layers(shape);
    enqueue_unembed(shape, 0, shape.num_outputs);
    if (!shape.have_masks) enqueue_sample(shape, 0, shape.num_outputs);
  }
  void download_outputs(bool want_logits, int first, int count, StepResult& result);

  Config config_;
  Plan plan_;
  DeviceWeights weights_;
  OwnedStream stream_;
  KvStorage kv_;
  OwnedWorkspace work_;
  InputUpload input_;
  PinnedBuffer pinned_results_, pinned_logits_;
  StepGraphs graphs_;
};

CudaBackend::CudaBackend(const Weights& weights, const BackendOptions& options, const CudaOptions& own,
                         Plan plan)
    : config_(weights.config),
      plan_(std::move(plan)),
      weights_(upload(weights, options.dense, options.num_threads)),
      kv_(config_, options, stream_),
      work_(config_, options, own, stream_),
      input_(config_, options, work_->input),
      pinned_results_(kOutputRows * sizeof(SampleResult)),
      pinned_logits_(static_cast<size_t>(kOutputRows) * static_cast<size_t>(config_.vocab) * sizeof(float)) {
  prepare_kernels();
  stream_.wait();
}

// Downloads outputs [first, first + count) and appends them to the result.
void CudaBackend::download_outputs(bool want_logits, int first, int count, StepResult& result) {
  const size_t num_logits = want_logits ? static_cast<size_t>(count) * static_cast<size_t>(config_.vocab) : 0;
  const auto* results = pinned_results_.as<SampleResult>();
  const auto* logits = pinned_logits_.as<float>();
  check(cudaMemcpyAsync(pinned_results_.as<void>(), work_->results + first,
                        static_cast<size_t>(count) * sizeof(SampleResult), cudaMemcpyDeviceToHost, stream_),
        "copying tokens");
  if (want_logits)
    check(cudaMemcpyAsync(pinned_logits_.as<void>(), work_->logits, num_logits * sizeof(float),
                          cudaMemcpyDeviceToHost, stream_),
          "copying logits");
  stream_.wait();
  for (int i = 0; i < count; ++i) result.outputs.push_back(to_sampled(results[i]));
  result.logits.insert(result.logits.end(), logits, logits + num_logits);
}

StepResult CudaBackend::step(const Batch& batch) {
  StepResult result;
  const StepShape shape = input_.upload(batch, stream_);
  if (shape.num_tokens == 0) return result;
  if (shape.is_decode()) {
    graphs_.launch(shape, stream_, [&] { enqueue_decode(shape); });
    if (shape.have_masks) {
      input_.upload_masks(stream_);
      enqueue_sample(shape, 0, shape.num_outputs);
    }
    download_outputs(batch.want_logits, 0, shape.num_outputs, result);
    return result;
  }
  graphs_.count_step_without();
  enqueue_layers(shape);
  input_.upload_masks(stream_);
  for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
    const int count = std::min(kOutputRows, shape.num_outputs - first);
    enqueue_unembed(shape, first, count);
    enqueue_sample(shape, first, count);
    download_outputs(batch.want_logits, first, count, result);
  }
  stream_.wait();
  return result;
}

std::vector<TimedWork> CudaBackend::profile(const Batch& batch) {
  Recorder recorder;
  const StepShape shape = input_.upload(batch, stream_);
  if (shape.num_tokens == 0) return {};
  NIBBLE_CHECK(!shape.have_masks, "a step with masks is not profiled");
  recorder.clear(stream_);
  stream_.record(&recorder);
  if (shape.is_decode()) {
    const StepGraph graph(stream_, [&] { enqueue_decode(shape); });
    graph.launch(stream_);
    stream_.wait();
  } else {
    enqueue_layers(shape);
    for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
      const int count = std::min(kOutputRows, shape.num_outputs - first);
      enqueue_unembed(shape, first, count);
      enqueue_sample(shape, first, count);
    }
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
  std::string refusal = why_not_budget(plan, config, caps);
  const std::string memory = why_not_memory(config, source, options, own, caps.total_bytes);
  if (!refusal.empty() && !memory.empty()) refusal += "; ";
  return {describe(caps), refusal + memory, choices(plan)};
}

}  // namespace nibble::cuda
