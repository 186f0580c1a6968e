#include "backend/cuda/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/draft/head_drafter.h"
#include "backend/cuda/memory/device_adapters.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/memory/uploader.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ranks/inbox.h"
#include "backend/cuda/ranks/nccl_sum.h"
#include "backend/cuda/route/args.h"
#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

constexpr int kMaxPositions{kMaxChunks * kChunkPages * kPagePositions};

double gigabytes(size_t bytes) { return static_cast<double>(bytes) / 1e9; }

size_t total_bytes(const MemoryPlan& plan) {
  return plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes + kStagingBytes;
}

std::string advice(const Config& config, const BackendOptions& options, const CudaOptions& own,
                   const MemoryPlan& needed, const FreeMemory& free) {
  const size_t without_kv = total_bytes(needed) - needed.kv_bytes;
  BackendOptions pages = options;
  pages.num_pages = 0;
  const size_t fixed_bytes = memory_plan(config, pages, own, free.device).kv_bytes;
  pages.num_pages = 1;
  const size_t page_bytes = memory_plan(config, pages, own, free.device).kv_bytes - fixed_bytes;
  if (without_kv + fixed_bytes + page_bytes <= free.bytes) {
    const size_t num_pages = (free.bytes - without_kv - fixed_bytes) / page_bytes;
    return fmt::format(
        "next to the weights {} tokens fit, and {} are requested: a smaller --context or --max-sequences "
        "needs less{}",
        num_pages * kPagePositions, static_cast<size_t>(options.num_pages) * kPagePositions,
        options.kv_format == Format::kBf16 ? "; --kv-dtype fp8 halves the KV cache" : "");
  }
  BackendOptions small = options;
  small.dense = {Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};
  const MemoryPlan smallest = memory_plan(config, small, own, free.device);
  if (smallest.weight_bytes + kStagingBytes < free.bytes && smallest.weight_bytes < needed.weight_bytes)
    return fmt::format("--mxfp4-layers all reduces the weights to {:.1f} GB",
                       gigabytes(smallest.weight_bytes));
  if (needed.weight_bytes + kStagingBytes < free.bytes)
    return "a smaller --max-batch-tokens, --context or --max-sequences needs less";
  return "the weights fit in no format; try --backend cpu";
}

}  // namespace

void check_shapes(const Config& c, std::string_view source) {
  const auto refuse = [&](const std::string& what) {
    throw InputError("{}: {}: the CUDA backend has no kernel for that; try --backend cpu", source, what);
  };
  if (c.max_context > kMaxPositions)
    refuse(fmt::format("a context of {} (at most {})", c.max_context, kMaxPositions));
  if (c.head_dim != 64) refuse(fmt::format("head_dim {} (must be 64)", c.head_dim));
  if (c.hidden % 32 || c.hidden > 4096)
    refuse(fmt::format("hidden {} (must be a multiple of 32, at most 4096)", c.hidden));
  if (c.intermediate % 32) refuse(fmt::format("intermediate {} (must be a multiple of 32)", c.intermediate));
  if (c.num_heads / c.num_kv_heads > kMaxGroupHeads)
    refuse(fmt::format("{} query heads per key/value head (at most {})", c.num_heads / c.num_kv_heads,
                       kMaxGroupHeads));
  if (c.num_experts > kMaxExperts) refuse(fmt::format("{} experts (at most {})", c.num_experts, kMaxExperts));
  if (c.vocab > kMaxVocab) refuse(fmt::format("a vocabulary of {} (at most {})", c.vocab, kMaxVocab));
  if (c.experts_per_token > kMaxExpertsPerToken)
    refuse(fmt::format("{} experts per token (at most {})", c.experts_per_token, kMaxExpertsPerToken));
}

std::string why_not_ranks(const DeviceCaps& caps, int num_ranks) {
  if (num_ranks == 1 || caps.family != Family::kSm121) return {};
  return fmt::format("a machine has one {}; --nodes shares a model between machines", caps.name);
}

std::vector<Share> shares_of(const Config& config, const CudaOptions& own, std::string_view source) {
  return nibble::shares_of(
      config, own.parts, source,
      {.flag = own.flag(),
       .experts = own.have_whole_experts ? ExpertSplit::kWhole : ExpertSplit::kUnits,
       .attention = own.have_own_sequences ? AttentionSplit::kSequences : AttentionSplit::kHeads});
}

std::vector<Share> shares_here(const Config& config, const CudaOptions& own, std::string_view source) {
  const std::vector<Share> all = shares_of(config, own, source);
  if (!own.node_rank) return all;
  return {all[*own.node_rank]};
}

void check_draft_head(const BackendOptions& options, const Target& target) {
  if (options.draft_head) check_head(*options.draft_head, options.draft_head_format, target);
}

std::string why_not_budget(const Plan& plan, const Config& config, const DeviceCaps& caps) {
  const SharedNeed need = most_shared(plan, config);
  const Budget budget = plan.target().budget;
  if (need.bytes <= usable_bytes(budget)) return {};
  const size_t kilobytes_needed =
      (need.bytes + 1023) / 1024 + 1;  // 1 KB more for static arrays (usable_bytes())
  if (largest_budget(caps.shared_bytes) > budget)
    return fmt::format("--shared-budget {}: {} needs {} KB of shared memory per CTA", kilobytes(budget),
                       name(*need.row), kilobytes_needed);
  return fmt::format(
      "{} has {} KB of shared memory per CTA and {} needs {}: an H100 or H200 has that; try "
      "--backend cpu",
      caps.name, caps.shared_bytes >> 10, name(*need.row), kilobytes_needed);
}

namespace {

MemoryPlan plan_of_share(const Config& whole, const Share& share, const BackendOptions& options,
                         const CudaOptions& own) {
  const Config config = config_of(whole, share);
  const size_t adapter_bytes = options.adapters ? device_adapter_bytes(*options.adapters) : 0;
  return {.weight_bytes = device_weight_bytes(whole, share, options.dense) + adapter_bytes,
          .kv_bytes = kv_bytes(config, options),
          .workspace_bytes =
              workspace_bytes(config, options, own) +
              (own.requests_nccl() ? nccl_rank_bytes(config.hidden, share.num_ranks, options.max_batch_tokens)
                                   : inbox_bytes(config, share.num_ranks, options.max_batch_tokens))};
}

}  // namespace

std::vector<GpuPlan> memory_plans(const Config& config, const BackendOptions& options,
                                  const CudaOptions& own) {
  std::vector<GpuPlan> gpus;
  const std::vector<Share> shares = shares_here(config, own, "the model");
  for (size_t n = 0; n < shares.size(); ++n) {
    const MemoryPlan of_share = plan_of_share(config, shares[n], options, own);
    const int device = own.gpus.empty() ? static_cast<int>(n) : own.gpus[n];
    auto gpu = std::ranges::find(gpus, device, &GpuPlan::device);
    if (gpu == gpus.end()) gpu = gpus.insert(gpu, {device, {}});
    gpu->plan.weight_bytes += of_share.weight_bytes;
    gpu->plan.kv_bytes += of_share.kv_bytes;
    gpu->plan.workspace_bytes += of_share.workspace_bytes;
  }
  if (options.draft_head) {  // a draft head runs only if one GPU has the whole model
    MemoryPlan& plan = gpus.front().plan;
    plan.weight_bytes += head_weight_bytes(options);
    plan.kv_bytes += HeadDrafter::kv_bytes(options);
    plan.workspace_bytes += HeadDrafter::workspace_bytes(options);
  }
  return gpus;
}

MemoryPlan memory_plan(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::optional<int> device) {
  MemoryPlan fullest;
  for (const GpuPlan& gpu : memory_plans(config, options, own))
    if ((!device || gpu.device == *device) && total_bytes(gpu.plan) > total_bytes(fullest))
      fullest = gpu.plan;
  return fullest;
}

size_t loadable_bytes(const DeviceCaps& caps) {
  const size_t free = free_device_bytes(caps);
  return free - std::min(free, kStagingBytes);
}

std::string why_not_memory(const Config& config, std::string_view source, const BackendOptions& options,
                           const CudaOptions& own, const FreeMemory& free) {
  const MemoryPlan needed = memory_plan(config, options, own, free.device);
  if (total_bytes(needed) <= free.bytes) return {};
  return fmt::format(
      "{} needs {:.1f} GB on the GPU (weights {:.1f}, KV cache {:.1f}, workspace {:.1f}, {:.1f} while "
      "loading) "
      "and {:.1f} are free: {}",
      source, gigabytes(total_bytes(needed)), gigabytes(needed.weight_bytes), gigabytes(needed.kv_bytes),
      gigabytes(needed.workspace_bytes), gigabytes(kStagingBytes), gigabytes(free.bytes),
      advice(config, options, own, needed, free));
}

}  // namespace nibble::cuda
