#include "backend/cuda/memory/workspace.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/chip/wait.h"
#include "backend/cuda/dense/adapters.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/memory/arena.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"
#include "backend/cuda/step/step_input.h"
#include "model/batch.h"
#include "model/page_layers.h"
#include "model/rope.h"

namespace nibble::cuda {
namespace {

static_assert(kPagePositions == kPageTokens);
static_assert(kMostDeals * kMaxColumns >= kOutputRows);  // unembed_dealt() has a counter per kMaxColumns rows

// Returns the number of segment sums that qkv_split() or project_split() stores, whichever is larger. The
// number is the same for every layout of weights.
size_t num_split_sums(const Config& config, int num_tokens) {
  const int T = std::min(num_tokens, kSplitTokens), queries = config.num_heads * config.head_dim,
            both = 2 * config.num_kv_heads * config.head_dim;
  return std::max(num_segment_sums(make_strips(Layout::kBf16, queries + both, config.hidden), T),
                  num_segment_sums(make_strips(Layout::kBf16, config.hidden, queries), T));
}

class WorkspacePlacer {
 public:
  // If `base` is null, place() only adds up the sizes of the arrays.
  WorkspacePlacer(const Config& config, const BackendOptions& options, const CudaOptions& own,
                  std::span<const KernelRow> table, uint8_t* base)
      : config_(config),
        options_(options),
        prompt_activations_(own.prompt_activations),
        groups_(group_room(config, options.max_batch_tokens, table, own.tuned_steps)),
        image_rows_(whole_eights(options.max_batch_tokens)),
        image_pairs_(whole_eights(options.max_batch_tokens * config.experts_per_token) +
                     8 * groups_.num_groups),
        num_rows_(options.max_batch_tokens),
        num_pairs_(num_rows_ * config.experts_per_token),
        hidden_(config.hidden),
        arena_(base) {}

  size_t place(Workspace& w) {
    place_attention(w);
    place_routing(w);
    place_experts(w);
    place_outputs(w);
    place_segments(w);
    place_counters(w);
    place_mailboxes(w);
    place_inputs(w);
    return arena_.size();
  }

 private:
  void place_attention(Workspace& w) {
    const int heads = config_.num_heads + 2 * config_.num_kv_heads;
    take(w.x, num_rows_ * hidden_);
    take(w.qkv_parts, std::max(2 * num_rows_ * heads * config_.head_dim,
                               image_bytes(image_pairs_, config_.hidden) / sizeof(float)));
    w.gathered = Activations::image(reinterpret_cast<__nv_bfloat16*>(w.qkv_parts), image_pairs_);
    take_room(w.attended, num_rows_, image_rows_, config_.num_heads * config_.head_dim);
    take(w.project_parts, 2 * num_rows_ * hidden_);
    take_room(w.normed, num_rows_, image_rows_, config_.hidden);
    if (options_.adapters)
      take(w.adapter_products, num_rows_ * kMostUpdates * static_cast<size_t>(max_rank(*options_.adapters)));
  }

  void place_routing(Workspace& w) {
    const size_t num_groups = groups_.num_groups;
    take(w.router_logits, num_rows_ * config_.num_experts);
    take(w.pair_weights, num_pairs_);
    take(w.chosen, num_pairs_);
    take(w.rank, num_pairs_);
    take(w.group_count, 1);
    take(w.group_expert, num_groups);
    take(w.group_pairs_count, num_groups);
    take(w.group_image_row, num_groups);
    take(w.group_pairs, groups_.num_pairs);
  }

  void place_experts(Workspace& w) {
    take_room(w.gated, num_pairs_, image_pairs_, config_.intermediate);
    if (prompt_activations_) {
      take_blocks(w.normed.blocks, num_rows_, config_.hidden);
      take_blocks(w.gated.blocks, num_pairs_, config_.intermediate);
    }
    take(w.experts_out, num_pairs_ * hidden_);
  }

  void place_outputs(Workspace& w) {
    const int output_rows = std::clamp(options_.max_batch_tokens, kDownloadedRows, kOutputRows);
    take(w.logits, size_t{1} * output_rows * config_.vocab);
    take(w.best, size_t{kOutputRows} * kBestCtas);
    take(w.results, num_rows_);
  }

  void place_segments(Workspace& w) {
    take(w.attend_partials,
         std::max({kAttendScratchBytes / sizeof(float), num_split_sums(config_, options_.max_batch_tokens),
                   (attended_block_bytes() + sizeof(float) - 1) / sizeof(float)}));
    w.segment_sums = w.attend_partials;
  }
  // Returns the bytes of scratch in which project_blocks() stores the quantised output of attention; 0 if
  // project is not block-scaled.
  size_t attended_block_bytes() const {
    if (!prompt_activations_ || options_.dense.attention_output != Format::kMxfp4) return 0;
    return bytes_of_rows({*prompt_activations_, config_.num_heads * config_.head_dim},
                         options_.max_batch_tokens);
  }

  void place_counters(Workspace& w) {
    take(w.embed_ticket, 1);
    take(w.route_ticket, 1);
    take(w.down_turns, kMaxExpertsPerToken);
    take(w.sample_tickets, kOutputRows);
    take(w.unembed_deals, 1 + kMostDeals);
    take(w.attend_tickets, num_rows_ * config_.num_kv_heads);
  }

  void place_mailboxes(Workspace& w) {
    w.mailbox_partials = attend_mailbox_partials(config_.num_kv_heads, config_.max_context);
    take(w.attend_mailbox, size_t{kPartialFloats} * w.mailbox_partials);
    take(w.tile_totals, size_t{kMostTileCtas} * size_t{kTileTotals});
    take(w.routing_sums, num_segment_sums(router_strips(config_), kOwnNorms));
    take(w.routing_experts, kMatchedPairs);
  }

  void place_inputs(Workspace& w) {
    take(w.step, 1);
    take(w.rope_frequencies, config_.head_dim / 2);
    take(w.input, max_input_bytes(options_));
  }

  template <typename T>
  void take(T*& pointer, size_t count) {
    pointer = arena_.take_array<T>(count);
  }
  // Takes memory for `count` plain rows, or for `rows_of_image` rows in wgmma's swizzled layout (an image),
  // whichever is larger.
  void take_room(ActivationRoom& room, size_t count, int rows_of_image, int cols) {
    room.image_rows = rows_of_image;
    take(room.data, std::max(count * cols, image_bytes(rows_of_image, cols) / sizeof *room.data));
  }
  void take_blocks(BlockRows& rows, size_t count, int cols) {
    rows.format = *prompt_activations_;
    rows.cols = cols;
    take(rows.codes, count * row_bytes(rows));
    take(rows.scales, count * num_tiles(rows));
  }

  const Config& config_;
  const BackendOptions& options_;
  std::optional<BlockFormat> prompt_activations_;
  GroupRoom groups_;
  int image_rows_, image_pairs_;
  size_t num_rows_, num_pairs_, hidden_;
  Arena arena_;
};

}  // namespace

Activations ActivationRoom::in(ActivationLayout layout) const {
  if (layout == ActivationLayout::kImage) return Activations::image(data, image_rows);
  return layout == ActivationLayout::kBlocks ? Activations(blocks) : Activations(data);
}

size_t workspace_bytes(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::span<const KernelRow> rows) {
  Workspace unplaced;
  return WorkspacePlacer(config, options, own, rows, nullptr).place(unplaced);
}

OwnedWorkspace::OwnedWorkspace(const Config& config, const BackendOptions& options, const CudaOptions& own,
                               Stream stream, std::span<const KernelRow> rows)
    : bytes_(workspace_bytes(config, options, own, rows)) {
  WorkspacePlacer(config, options, own, rows, bytes_.as<uint8_t>()).place(work_);
  for (int turn : {0, 1}) {
    inputs_[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options));
    outputs_[turn] = PinnedBuffer(sizeof(StepOutput) + options.max_batch_tokens * sizeof(RowOutput));
    work_.exchange.inputs[turn] = inputs_[turn].as<InputHeader>();
    work_.exchange.outputs[turn] = outputs_[turn].as<StepOutput>();
    kept_[turn] = PinnedBuffer(options.max_batch_tokens * sizeof(int32_t));
    work_.exchange.kept[turn] = kept_[turn].as<int32_t>();
  }
  check(cudaMemsetAsync(bytes_.as<void>(), 0, bytes_.bytes(), stream), "clearing the workspace");
  const RopeFrequencies rope = rope_frequencies(config.rope, config.head_dim);
  work_.rope_concentration = rope.concentration;
  check(cudaMemcpyAsync(work_.rope_frequencies, rope.frequencies.data(),
                        rope.frequencies.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
        "copying frequencies");
  wait_for_stream(stream, "copying frequencies");
}

namespace {

size_t kv_layer_bytes(const Config& config, const BackendOptions& options) {
  return size_t{2} * (kSparePages + options.num_pages) * config.num_kv_heads * kPagePositions *
         num_bytes(options.kv_format, config.head_dim);
}

}  // namespace

size_t kv_bytes(const Config& config, const BackendOptions& options) {
  return num_page_layers(config) * kv_layer_bytes(config, options);
}

KvStorage::KvStorage(const Config& config, const BackendOptions& options, Stream stream)
    : bytes_(kv_bytes(config, options)), table_(config.layer_kinds.size() * sizeof(LayerPages)) {
  check(cudaMemsetAsync(bytes_.as<void>(), 0, bytes_.bytes(), stream), "clearing the KV cache");
  const KvFormat format = options.kv_format == Format::kE4m3 ? KvFormat::kE4m3 : KvFormat::kBf16;
  const std::vector<int> page_layer = page_layers(config);
  for (size_t i = 0; i < page_layer.size(); ++i)
    layers_.push_back({bytes_.as<uint8_t>() + page_layer[i] * kv_layer_bytes(config, options),
                       config.layer_kinds[i] == LayerKind::kSliding, format});
  check(cudaMemcpyAsync(table_.as<void>(), layers_.data(), table_.bytes(), cudaMemcpyHostToDevice, stream),
        "copying the layers' addresses of pages");
  wait_for_stream(stream, "copying the layers' addresses of pages");
}

}  // namespace nibble::cuda
