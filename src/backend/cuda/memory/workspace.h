// GPU memory other than weights: the KV cache, and the scratch memory of a step.
#pragma once

#include <cuda_bf16.h>

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {

// kOutputRows: largest number of rows in one launch that computes logits. Every such launch reads all of
// lm_head. kDownloadedRows: the limit if the logits are copied to the host, because pinned memory is scarce.
inline constexpr int kOutputRows{256}, kDownloadedRows{64};
inline constexpr size_t kAttendScratchBytes{size_t{64} << 20};
// Returns the largest number of rows per launch of attend_rows(): the rows' partial softmaxes must fit in
// kAttendScratchBytes.
constexpr int rows_of_attend(int num_kv_heads, int max_chunks) {
  const auto row_floats =
      static_cast<size_t>(num_kv_heads) * static_cast<size_t>(max_chunks) * size_t{kPartialFloats};
  const size_t rows = kAttendScratchBytes / sizeof(float) / row_floats;
  return rows > 1 ? static_cast<int>(rows) : 1;
}

// Returns how many partial softmaxes attention's mailbox holds (AttendArgs): those of two rows of the longest
// context. A launch with more than two such rows has more CTAs than can be resident at once, so it does not
// use the mailbox (attention/launch.h).
constexpr int attend_mailbox_partials(int num_kv_heads, int max_context) {
  constexpr int kRows{2};
  int chunks = 1;
  while (chunks < kMaxChunks && chunks * kChunkPages * kPagePositions < max_context) chunks *= 2;
  return kRows * num_kv_heads * chunks;
}

// Memory for activations in any of the layouts that a plan may choose for them.
struct ActivationRoom {
  __nv_bfloat16* data{nullptr};  // plain rows, or an image: the swizzled layout of wgmma
  int image_rows{0};
  BlockRows blocks{};  // block-scaled rows; set only with --prompt-activations

  Activations in(ActivationLayout layout) const;
};

// Activations of a step of T rows, and scratch memory by which kernels pass data to each other.
struct Workspace {
  float *x{nullptr}, *qkv_parts{nullptr}, *project_parts{nullptr}, *router_logits{nullptr},
      *pair_weights{nullptr}, *experts_out{nullptr}, *logits{nullptr}, *attend_partials{nullptr};
  ActivationRoom attended, normed, gated;
  // Image of gathered pairs (ExpertsUpArgs). It lies in the memory of qkv_parts, which attention has already
  // read when experts_up runs.
  Activations gathered;
  // Scratch of qkv_split(), project_split() and project_blocks(). It lies in the memory of attend_partials,
  // which is in use only while attention runs.
  float* segment_sums{nullptr};
  int *chosen{nullptr}, *rank{nullptr}, *group_count{nullptr}, *group_expert{nullptr},
      *group_pairs_count{nullptr}, *group_pairs{nullptr}, *group_image_row{nullptr};
  float* adapter_products{nullptr};  // scratch of add_updates(); null without adapters
  SampleResult* results{nullptr};
  uint64_t* best{nullptr};
  // Arrays of RoutingMailbox; zero before the first step.
  uint64_t *routing_sums{nullptr}, *routing_experts{nullptr};
  uint32_t* step{nullptr};  // number of the current step; zero before the first
  // Counters of kernels, zero before the first step. Embed and route have one counter each, experts_down has
  // kMaxExpertsPerToken, sample kOutputRows, attend one per row and key/value head, unembed 1 + kMostDeals.
  unsigned *embed_ticket{nullptr}, *route_ticket{nullptr}, *down_turns{nullptr}, *sample_tickets{nullptr},
      *attend_tickets{nullptr}, *unembed_deals{nullptr};
  // attend_mailbox and tile_totals: the mailboxes of AttendArgs and of AttendTilesArgs; zero before the first
  // step.
  float* attend_mailbox{nullptr};  // [mailbox_partials, kPartialFloats]
  int mailbox_partials{0};
  float* tile_totals{nullptr};       // [kMostTileCtas, kTileTotals]
  float* rope_frequencies{nullptr};  // [D / 2]: radians per position for each pair of elements
  float rope_concentration{1};
  uint8_t* input{nullptr};  // device copy of a step's input (step_input.h)
  StepExchange exchange;    // host memory: inputs and outputs of two steps, for max_batch_tokens rows each
};

// Returns the bytes of a workspace that suffices for any plan. `rows`: the kernel table from which plans
// choose.
size_t workspace_bytes(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::span<const KernelRow> rows = kernel_rows());

class OwnedWorkspace {
 public:
  OwnedWorkspace(const Config& config, const BackendOptions& options, const CudaOptions& own, Stream stream,
                 std::span<const KernelRow> rows = kernel_rows());
  const Workspace& operator*() const { return work_; }
  const Workspace* operator->() const { return &work_; }

 private:
  Workspace work_;
  DeviceBuffer bytes_;
  PinnedBuffer inputs_[2], outputs_[2], kept_[2];  // host memory to which work_.exchange points
};

size_t kv_bytes(const Config& config, const BackendOptions& options);

// The KV cache of all layers. The constructor zeros it, because attention also loads slots that no kernel has
// written.
class KvStorage {
 public:
  KvStorage(const Config& config, const BackendOptions& options, Stream stream);
  LayerPages pages(size_t layer) const { return layers_[layer]; }
  const LayerPages* on_device() const { return table_.as<LayerPages>(); }  // one entry per layer
  int num_layers() const { return static_cast<int>(layers_.size()); }

 private:
  DeviceBuffer bytes_, table_;
  std::vector<LayerPages> layers_;
};

}  // namespace nibble::cuda
