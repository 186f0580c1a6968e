#include "backend/cuda/draft/head_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/memory/arena.h"
#include "backend/cuda/memory/uploader.h"
#include "backend/cuda/pipeline/stream_shape.h"
#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

struct HeadWidths {
  int hidden, features, input, q, kv;
  explicit HeadWidths(const DraftHeadConfig& head)
      : hidden(head.hidden),
        features(static_cast<int>(DraftHeadConfig::kNumTaps) * head.hidden),
        input(2 * head.hidden),
        q(head.num_heads * head.head_dim),
        kv(head.num_kv_heads * head.head_dim) {}
};

// Returns whether the head uses the model's unembedding as it is stored on the device.
bool shares_unembedding(const BackendOptions& options) {
  return options.draft_head->unembedding.is_gone() && options.draft_head_format == options.dense.unembedding;
}

HeadWeights place_head(const BackendOptions& options, Arena& arena) {
  const DraftHead& head = *options.draft_head;
  const DraftHeadConfig& config = head.config;
  const HeadWidths w(config);
  const auto take = [&](int rows, int cols) {
    return arena.take_strips(make_strips(layout_of(options.draft_head_format), rows, cols));
  };
  HeadWeights to;
  if (config.norm_before_fc) to.features_norm = arena.take_array<float>(w.features);
  for (float** norm : {&to.token_norm, &to.hidden_norm, &to.mlp_norm, &to.final_norm})
    *norm = arena.take_array<float>(w.hidden);
  to.fc = take(w.hidden, w.features);
  to.qkv = take(w.q + 2 * w.kv, w.input);
  to.o = take(w.hidden, w.q);
  to.gate_up = take(2 * config.intermediate, w.hidden);
  to.down = take(w.hidden, config.intermediate);
  if (!shares_unembedding(options)) to.unembedding = take(config.draft_vocab, w.hidden);
  if (!head.embedding.is_gone())
    to.embedding = arena.take_array<__nv_bfloat16>(size_t{1} * config.vocab * w.hidden);
  to.tokens = arena.take_array<int>(config.draft_vocab);
  return to;
}

// Returns a view of a matrix's rows from `first_row` on, which must be the first row of a strip. `cols`:
// columns of the matrix.
Strips rows_from(const Strips& strips, int first_row, int cols) {
  Strips rows = make_strips(strips.layout, strips.rows - first_row, cols);
  rows.data = strips.data + size_t{1} * (first_row / kStripRows) * strips.strip_bytes;
  return rows;
}

}  // namespace

void check_head(const DraftHead& head, Format format, const Target& target) {
  const DraftHeadConfig& config = head.config;
  const auto refuse = [&](const std::string& what) {
    throw InputError("{}: {}: the CUDA backend has no kernel for such a draft head; try --backend cpu",
                     head.source, what);
  };
  if (config.head_dim != 64) refuse(fmt::format("head_dim {} (must be 64)", config.head_dim));
  if (config.num_heads / config.num_kv_heads > kMaxGroupHeads)
    refuse(fmt::format("{} query heads per key/value head (at most {})",
                       config.num_heads / config.num_kv_heads, kMaxGroupHeads));
  if (config.intermediate % 32)
    refuse(fmt::format("intermediate {} (must be a multiple of 32)", config.intermediate));
  const HeadWidths w(config);
  const int widest = std::max({w.features, w.q, config.intermediate});
  const size_t needed = least_stream_bytes(layout_of(format), widest, 1);
  if (needed > usable_bytes(target.budget))
    refuse(fmt::format("a row of {} numbers needs {} KB of shared memory, more than {}", widest,
                       (needed + 1023) / 1024, kilobytes(target.budget)));
}

size_t head_weight_bytes(const BackendOptions& options) {
  Arena arena(nullptr);
  place_head(options, arena);
  return arena.size();
}

HeadWeights upload_head(const Weights& model, const DeviceWeights& device, const BackendOptions& options) {
  const DraftHead from = with_parts_of(model, *options.draft_head);
  const DraftHeadConfig& config = from.config;
  const HeadWidths w(config);
  DeviceBuffer storage(head_weight_bytes(options));
  Arena arena(storage.as<uint8_t>());
  HeadWeights to = place_head(options, arena);
  to.storage = std::move(storage);

  Uploader uploader(from.source, {}, options.num_threads);
  if (to.features_norm) uploader.vector(from.features_norm, to.features_norm);
  uploader.vector(from.token_norm, to.token_norm);
  uploader.vector(from.hidden_norm, to.hidden_norm);
  uploader.vector(from.mlp_norm, to.mlp_norm);
  uploader.vector(from.final_norm, to.final_norm);
  uploader.dense(from.fc, "the draft head's fc", 0, to.fc);
  uploader.dense(from.q, "the draft head's q", 0, to.qkv);
  uploader.dense(from.k, "the draft head's k", w.q, to.qkv);
  uploader.dense(from.v, "the draft head's v", w.q + w.kv, to.qkv);
  to.kv = rows_from(to.qkv, w.q, w.input);
  uploader.dense(from.o, "the draft head's o", 0, to.o);
  uploader.dense(from.gate, "the draft head's gate", 0, to.gate_up);
  uploader.dense(from.up, "the draft head's up", config.intermediate, to.gate_up);
  uploader.dense(from.down, "the draft head's down", 0, to.down);
  if (shares_unembedding(options))
    to.unembedding = device.unembedding;
  else
    uploader.dense(from.unembedding, "the draft head's lm_head", 0, to.unembedding);
  if (to.embedding)
    uploader.rows(from.embedding, "the draft head's embedding", const_cast<__nv_bfloat16*>(to.embedding));
  else
    to.embedding = device.embedding;
  uploader.finish(to.storage.bytes());
  copy_to_device(to.tokens, from.tokens.data(), from.tokens.size() * sizeof(int), "copying tokens");
  return to;
}

}  // namespace nibble::cuda
