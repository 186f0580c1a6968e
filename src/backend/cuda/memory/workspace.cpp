#include "backend/cuda/memory/workspace.h"

#include <algorithm>
#include <type_traits>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/layout/image.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"
#include "backend/cuda/step/step_input.h"
#include "model/batch.h"
#include "model/rope.h"

namespace nibble::cuda {
namespace {

static_assert(kPagePositions == kPageTokens);
static_assert(kMostDeals >= kOutputRows);
constexpr size_t kAlignment{256};

// Returns the larger number of segment sums of qkv_split() and project_split(). All layouts have the same
// segments.
size_t num_split_sums(const Config& config, int num_tokens) {
  const int T = std::min(num_tokens, kSplitTokens), queries = config.num_heads * config.head_dim,
            both = 2 * config.num_kv_heads * config.head_dim;
  return std::max(num_segment_sums(make_strips(Layout::kBf16, queries + both, config.hidden), T),
                  num_segment_sums(make_strips(Layout::kBf16, config.hidden, queries), T));
}

// Assigns every array its place from `base` on. If `base` is null, only adds up the sizes of the arrays.
size_t place(const Config& config, const BackendOptions& options, const CudaOptions& own, uint8_t* base,
             Workspace& w, std::span<const KernelRow> table) {
  size_t size = 0;
  const auto take = [&](auto*& pointer, size_t count) {
    using T = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<T*>(base + size) : nullptr;
    size += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  };
  const auto T = static_cast<size_t>(options.max_batch_tokens), H = static_cast<size_t>(config.hidden),
             D = static_cast<size_t>(config.head_dim), Nq = static_cast<size_t>(config.num_heads),
             Nkv = static_cast<size_t>(config.num_kv_heads),
             K = static_cast<size_t>(config.experts_per_token);
  const GroupRoom groups = group_room(config, options.max_batch_tokens, table);
  const int image_rows = whole_eights(options.max_batch_tokens),
            image_pairs =
                whole_eights(options.max_batch_tokens * config.experts_per_token) + 8 * groups.num_groups;
  const auto take_room = [&](ActivationRoom& room, size_t count, int rows_of_image, int cols) {
    room.image_rows = rows_of_image;
    take(room.data,
         std::max(count * static_cast<size_t>(cols), image_bytes(rows_of_image, cols) / sizeof *room.data));
  };
  take(w.x, T * H);
  take(w.qkv_parts,
       std::max(2 * T * (Nq + 2 * Nkv) * D, image_bytes(image_pairs, config.hidden) / sizeof(float)));
  w.gathered = Activations::image(reinterpret_cast<__nv_bfloat16*>(w.qkv_parts), image_pairs);
  take_room(w.attended, T, image_rows, config.num_heads * config.head_dim);
  take(w.project_parts, 2 * T * H);
  take_room(w.normed, T, image_rows, config.hidden);
  take(w.router_logits, T * static_cast<size_t>(config.num_experts));
  take(w.pair_weights, T * K);
  take(w.chosen, T * K);
  take(w.rank, T * K);
  take(w.group_count, 1);
  take(w.group_expert, static_cast<size_t>(groups.num_groups));
  take(w.group_pairs_count, static_cast<size_t>(groups.num_groups));
  take(w.group_image_row, static_cast<size_t>(groups.num_groups));
  take(w.group_pairs, static_cast<size_t>(groups.num_pairs));
  take_room(w.gated, T * K, image_pairs, config.intermediate);
  if (own.prompt_activations) {
    const auto take_rows = [&](BlockRows& rows, size_t count, int cols) {
      rows.format = *own.prompt_activations;
      rows.cols = cols;
      take(rows.codes, count * row_bytes(rows));
      take(rows.scales, count * static_cast<size_t>(num_tiles(rows)));
    };
    take_rows(w.normed.blocks, T, config.hidden);
    take_rows(w.gated.blocks, T * K, config.intermediate);
  }
  take(w.experts_out, T * K * H);
  take(w.logits, kOutputRows * static_cast<size_t>(config.vocab));
  take(w.best, static_cast<size_t>(kOutputRows) * kBestCtas);
  take(w.results, T);
  take(w.attend_partials,
       std::max(kAttendScratchBytes / sizeof(float), num_split_sums(config, options.max_batch_tokens)));
  w.segment_sums = w.attend_partials;
  take(w.embed_ticket, 1);
  take(w.route_ticket, 1);
  take(w.down_turns, kMaxExpertsPerToken);
  take(w.sample_tickets, kOutputRows);
  take(w.unembed_deals, 1 + kMostDeals);
  take(w.attend_tickets, T * Nkv);
  w.mailbox_partials = attend_mailbox_partials(config.num_kv_heads, config.max_context);
  take(w.attend_mailbox, static_cast<size_t>(w.mailbox_partials) * size_t{kPartialFloats});
  take(w.tile_totals, size_t{kMostTileCtas} * size_t{kTileTotals});
  take(w.routing_sums, num_segment_sums(router_strips(config), kOwnNorms));
  take(w.routing_experts, kMatchedPairs);
  take(w.step, 1);
  take(w.rope_frequencies, D / 2);
  take(w.input, max_input_bytes(options));
  return size;
}

}  // namespace

Activations ActivationRoom::in(ActivationLayout layout) const {
  switch (layout) {
    case ActivationLayout::kImage:
      return Activations::image(data, image_rows);
    case ActivationLayout::kBlocks:
      return Activations(blocks);
    case ActivationLayout::kRows:
      break;
  }
  return data;
}

size_t workspace_bytes(const Config& config, const BackendOptions& options, const CudaOptions& own,
                       std::span<const KernelRow> rows) {
  Workspace unplaced;
  return place(config, options, own, nullptr, unplaced, rows);
}

OwnedWorkspace::OwnedWorkspace(const Config& config, const BackendOptions& options, const CudaOptions& own,
                               Stream stream, std::span<const KernelRow> rows)
    : bytes_(workspace_bytes(config, options, own, rows)) {
  place(config, options, own, bytes_.as<uint8_t>(), work_, rows);
  for (int turn : {0, 1}) {
    inputs_[turn] = PinnedBuffer(sizeof(InputHeader) + max_input_bytes(options));
    outputs_[turn] =
        PinnedBuffer(sizeof(StepOutput) + static_cast<size_t>(options.max_batch_tokens) * sizeof(RowOutput));
    work_.exchange.inputs[turn] = inputs_[turn].as<InputHeader>();
    work_.exchange.outputs[turn] = outputs_[turn].as<StepOutput>();
    kept_[turn] = PinnedBuffer(static_cast<size_t>(options.max_batch_tokens) * sizeof(int32_t));
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

size_t kv_layer_bytes(const Config& config, const BackendOptions& options, LayerKind kind) {
  const int num_pages =
      kSparePages + (kind == LayerKind::kFull ? options.num_full_pages : options.num_sliding_pages);
  return size_t{2} * static_cast<size_t>(num_pages) * static_cast<size_t>(config.num_kv_heads) *
         kPagePositions * num_bytes(options.kv_format, static_cast<size_t>(config.head_dim));
}

size_t kv_bytes(const Config& config, const BackendOptions& options) {
  size_t bytes = 0;
  for (const LayerKind kind : config.layer_kinds) bytes += kv_layer_bytes(config, options, kind);
  return bytes;
}

KvStorage::KvStorage(const Config& config, const BackendOptions& options, Stream stream)
    : bytes_(kv_bytes(config, options)), table_(config.layer_kinds.size() * sizeof(LayerPages)) {
  check(cudaMemsetAsync(bytes_.as<void>(), 0, bytes_.bytes(), stream), "clearing the KV cache");
  const KvFormat format = options.kv_format == Format::kE4m3 ? KvFormat::kE4m3 : KvFormat::kBf16;
  auto* next = bytes_.as<uint8_t>();
  for (const LayerKind kind : config.layer_kinds) {
    layers_.push_back({next, kind == LayerKind::kSliding, format});
    next += kv_layer_bytes(config, options, kind);
  }
  check(cudaMemcpyAsync(table_.as<void>(), layers_.data(), table_.bytes(), cudaMemcpyHostToDevice, stream),
        "copying where layers have their pages");
  wait_for_stream(stream, "copying where layers have their pages");
}

}  // namespace nibble::cuda
