#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/backend_of_ranks.h"
#include "backend/cuda/chip/images.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/rank.h"
#include "backend/cuda/ranks/cards.h"
#include "backend/cuda/ranks/connection.h"
#include "backend/cuda/recipe.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cuda {

std::string why_not() { return why_no_device(); }

std::string why_no_adapters(const CudaOptions& own) {
  return own.num_ranks() > 1 ? "GPUs that share a model do not run adapters of requests" : "";
}

MemoryPlan plan(const Config& config, const BackendOptions& options, const CudaOptions& own) {
  return memory_plan(config, options, own);
}

namespace {

bool is_fp8(const Matrix* matrix) { return matrix->format() == Format::kE4m3; }

// Returns the format of the dense matrices that the option --fp8-layers calls `group`: qkv, o or lm_head.
Format format_of(std::string_view group, const std::vector<const Matrix*>& matrices, Format requested,
                 std::string_view source) {
  if (std::ranges::none_of(matrices, is_fp8)) return requested;
  if (requested == Format::kMxfp4)
    throw InputError(
        "{}: {} is FP8, and the CUDA backend does not convert FP8 to MXFP4: leave {} out of --mxfp4-layers, "
        "or try --backend cpu",
        source, group, group);
  if (requested == Format::kBf16 && !std::ranges::all_of(matrices, is_fp8))
    throw InputError(
        "{}: {} is FP8 in some matrices and BF16 in others, the CUDA backend needs one format: --fp8-layers "
        "{} converts the others",
        source, group, group);
  return Format::kE4m3;
}

// Returns the requested formats of qkv, o and lm_head, except that matrices that are FP8 in the checkpoint
// get kE4m3: the codes and row scales of the checkpoint are kept. Throws InputError if the matrices of qkv, o
// or lm_head would need two formats, or a conversion from FP8.
DenseFormats dense_formats(const Weights& weights, const DenseFormats& requested) {
  std::vector<const Matrix*> qkv, o;
  for (const LayerWeights& layer : weights.layers) {
    qkv.insert(qkv.end(), {&layer.q, &layer.k, &layer.v});
    o.push_back(&layer.o);
  }
  return {format_of("qkv", qkv, requested.qkv, weights.source),
          format_of("o", o, requested.attention_output, weights.source),
          format_of("lm_head", {&weights.unembedding}, requested.unembedding, weights.source)};
}

// Returns own.tuned_steps; empty if ranks share the model, because `nibble tune` times kernels on layers of
// the whole model, not of a share.
std::vector<TunedSteps> tuned_steps_of(const CudaOptions& own) {
  return own.num_ranks() == 1 ? own.tuned_steps : std::vector<TunedSteps>{};
}

// Returns the plan of the calling thread's GPU. Throws InputError if the GPU cannot run its share.
Plan plan_of_device(const Weights& weights, const Share& share, const BackendOptions& options,
                    const CudaOptions& own) {
  const DeviceCaps& caps = device_caps();
  check_images(caps.name, caps.compute_capability, images(), own.may_compile);
  const Config config = config_of(weights.config, share);
  Plan plan(config, options, target_of(caps, own), weights.source,
            {.prompt_activations = own.prompt_activations, .tuned_steps = tuned_steps_of(own)});
  if (const std::string reason = why_not_budget(plan, config, caps); !reason.empty())
    throw InputError("--backend cuda: {}", reason);
  check_draft_head(options, plan.target());
  return plan;
}

// Describes how the first rank runs a step of `num_rows` rows, and the launch that computes logits. If the
// step has more than kOutputRows rows, several launches compute logits, and only the first one is described.
std::vector<StepFact> step_of(const Plan& plan, const Config& config, const CudaOptions& own, int num_rows) {
  const int num_ranks = own.num_ranks();
  const Sharing sharing{num_ranks > 1, num_ranks > 1 && !own.requests_nccl(), own.have_own_sequences};
  const int num_own_rows = std::max((num_rows + num_ranks - 1) / num_ranks, kLeastOwnRows);
  return describe(recipe(plan, config, sharing, {num_rows, own.have_own_sequences ? num_own_rows : num_rows}),
                  unembed_recipe(plan, (config.vocab + num_ranks - 1) / num_ranks, config.hidden,
                                 std::min(num_rows, kOutputRows)));
}

}  // namespace

std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& requested,
                              const CudaOptions& own) {
  if (const std::string missing = why_not(); !missing.empty())
    throw InputError("--backend cuda: {}", missing);
  BackendOptions options = requested;
  options.dense = dense_formats(*weights, requested.dense);
  const Config& config = weights->config;
  check_shapes(config, weights->source);
  if (own.num_ranks() > 1 && options.draft_head)
    throw InputError("--tensor-parallel-size {}: a draft head needs a model that is on one GPU",
                     own.num_ranks());
  NIBBLE_CHECK(!options.adapters || why_no_adapters(own).empty(), "adapters with {} ranks", own.num_ranks());
  if (options.adapters && options.max_batch_tokens < kLeastAdaptedRows)
    throw InputError(
        "--lora-modules: a step with adapters has at least {} rows: --max-batch-tokens {} is too small",
        kLeastAdaptedRows, options.max_batch_tokens);
  if (own.have_own_sequences && options.max_batch_tokens < kLeastOwnRows)
    throw InputError(
        "--data-parallel-attention: a step has at least {} rows: --max-batch-tokens {} is too small",
        kLeastOwnRows, options.max_batch_tokens);
  NIBBLE_CHECK(options.num_kv_caches == (own.have_own_sequences ? own.num_ranks() : 1), "{} KV caches",
               options.num_kv_caches);
  if (own.num_ranks() > kMaxRanks)
    throw InputError("{} {}: at most {} GPUs can share a model", own.flag(), own.num_ranks(), kMaxRanks);
  const std::vector<int> devices = devices_of(own);
  Connection connection = connection_of(config, options, own, weights->source, devices);
  const std::vector<Share> shares = shares_here(config, own, weights->source);
  std::vector<RankPlan> plans;
  for (size_t n = 0; n < shares.size(); ++n) {
    const Share& share = shares[n];
    const int device = devices[n];
    use_device(device);
    plans.push_back({share, device, plan_of_device(*weights, share, options, own)});
    const Target& target = plans.back().plan.target();
    log::info("kernels of {} for {}: {} KB of shared memory per CTA, {} multiprocessors", name(target.family),
              device_caps().name, kilobytes(target.budget), target.num_multiprocessors);
    if (own.num_ranks() > 1)
      log::info(
          "GPU {} has {} of {} key/value heads{}, {} of {} experts with {} of {} units each, {} of {} "
          "rows of lm_head",
          device, share.kv_heads.count, config.num_kv_heads,
          share.has_own_sequences ? " of some sequences" : "", share.experts.count, config.num_experts,
          share.units.count, config.intermediate, share.vocab.count, config.vocab);
    if (own.prompt_activations && !target.has_block_products)
      log::warn(
          "--prompt-activations: {} has no instruction for block-scaled products: prompts in {} use its "
          "emulation in software, which is slow",
          device_caps().name, nibble::name(format_of(*own.prompt_activations)));
  }
  for (const int device : cards_of(plans)) {
    use_device(device);
    if (const std::string reason =
            why_not_memory(config, weights->source, options, own, {free_device_bytes(device_caps()), device});
        !reason.empty())
      throw InputError("{}", reason);
  }
  return backend_of_ranks(*weights, options, own, std::move(plans), std::move(connection));
}

RemoteKernels kernels_on(std::string_view gpu, const Config& config, const BackendOptions& options,
                         const CudaOptions& own, std::string_view source) {
  const DeviceCaps caps = known_gpu(gpu);
  check_shapes(config, source);
  const Plan plan(config, options, target_of(caps, own), source, {own.prompt_activations});
  check_draft_head(options, plan.target());
  std::vector<std::string> refusals{own.requests_nccl() ? "" : why_not_ranks(caps, own.num_ranks()),
                                    why_not_budget(plan, config, caps),
                                    why_not_memory(config, source, options, own, {caps.total_bytes})};
  std::erase(refusals, "");
  return {describe(caps), fmt::format("{}", fmt::join(refusals, "; ")),
          choices_of(plan, own.num_ranks(), own.have_own_sequences, {}),
          [plan, config, own, source = std::string(source)](int num_rows) {
            return step_of(plan, config_of(config, shares_here(config, own, source).front()), own, num_rows);
          }};
}

}  // namespace nibble::cuda
