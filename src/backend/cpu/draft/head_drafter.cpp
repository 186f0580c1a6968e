#include "backend/cpu/draft/head_drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/attend.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/dense/embed.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/dense/rms_norm.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/split_order.h"
#include "core/errors/error.h"

namespace nibble::cpu {
namespace {

// Score of a sink that adds nothing to the softmax. The score is not minus infinity, because the difference
// of two infinite scores would be NaN.
constexpr float kNoSink{-1e30f};

void to_split(const float* from, ptrdiff_t count, float* to) {
  for (ptrdiff_t i = 0; i < count; ++i) to[split_index(i)] = from[i];
}

}  // namespace

void HeadDrafter::Rows::resize(ptrdiff_t num_rows, ptrdiff_t width) {
  elements.assign(static_cast<size_t>(num_rows * width), 0.0f);  // padding to whole blocks must be zero
  view = View<float, 2>(elements.data(), {num_rows, width});
}

HeadDrafter::HeadDrafter(const BackendOptions& options, const Weights& model, const Machine& machine,
                         bool int8)
    : head_(with_parts_of(model, *options.draft_head)),
      machine_(machine),
      num_pages_(options.num_pages),
      rope_(rope_frequencies(head_.config)),
      no_sinks_(static_cast<size_t>(head_.config.num_heads), kNoSink),
      fc_(head_.fc, options.draft_head_format, machine, int8, head_.source),
      q_(head_.q, options.draft_head_format, machine, int8, head_.source),
      k_(head_.k, options.draft_head_format, machine, int8, head_.source),
      v_(head_.v, options.draft_head_format, machine, int8, head_.source),
      o_(head_.o, options.draft_head_format, machine, int8, head_.source),
      gate_(head_.gate, options.draft_head_format, machine, int8, head_.source),
      up_(head_.up, options.draft_head_format, machine, int8, head_.source),
      down_(head_.down, options.draft_head_format, machine, int8, head_.source),
      unembedding_(head_.unembedding, options.draft_head_format, machine, int8, head_.source),
      kv_(draft_cache_config(head_.config), Format::kBf16, options.num_pages + kMaxDraftingRuns) {
  if (head_.config.head_dim > kMaxHeadDim)
    throw InputError(
        "{}: head_dim {} is more than the {} that the CPU backend can do: try --backend reference",
        head_.source, head_.config.head_dim, kMaxHeadDim);
  if (!head_.embedding.blocks() && head_.embedding.format() != Format::kBf16)
    throw InputError(
        "{}: the draft head's embedding is {}, the CPU backend takes BF16: try --backend reference",
        head_.source, stored_name(head_.embedding));
}

size_t HeadDrafter::weight_bytes(const DraftHeadConfig& head, Format format) {
  const DraftHeadBytes bytes = bytes_of(head, format);
  return bytes.fc + bytes.draft;
}

size_t HeadDrafter::kv_bytes(const DraftHeadConfig& head, int num_pages) {
  return KvCache::num_bytes(draft_cache_config(head), Format::kBf16, num_pages + kMaxDraftingRuns);
}

size_t HeadDrafter::workspace_bytes(const DraftHeadConfig& head, int max_rows) {
  const size_t hidden = static_cast<size_t>(head.hidden),
               kv_width = static_cast<size_t>(head.num_kv_heads * head.head_dim);
  // Floats per row: layer outputs (3), features, embedding, layer input (2), keys, values, cosines and sines.
  const size_t row = 7 * hidden + 2 * kv_width + static_cast<size_t>(head.head_dim);
  const size_t output = 5 * hidden + 3 * static_cast<size_t>(head.num_heads * head.head_dim) +
                        3 * static_cast<size_t>(head.intermediate) + static_cast<size_t>(head.draft_vocab);
  return sizeof(float) * (static_cast<size_t>(max_rows) * row + kMaxDraftingRuns * output);
}

void HeadDrafter::start(ptrdiff_t num_rows) {
  taps_.resize(num_rows, padded(static_cast<ptrdiff_t>(DraftHeadConfig::kNumTaps) * head_.config.hidden));
}

void HeadDrafter::keep(int layer, View<const float, 2> x) {
  const auto& taps = head_.config.taps;
  const auto tap = std::ranges::find(taps, layer);
  if (tap == taps.end()) return;
  const ptrdiff_t hidden = head_.config.hidden;
  for (ptrdiff_t t = 0; t < x.shape[0]; ++t)
    std::copy_n(x.row(t), hidden, taps_.view.row(t) + (tap - taps.begin()) * hidden);
}

void HeadDrafter::append(std::span<const BatchRow> rows) {
  const ptrdiff_t num_rows = std::ssize(rows), head_dim = head_.config.head_dim;
  keys_.resize(num_rows, k_.rows());
  values_.resize(num_rows, v_.rows());
  k_.multiply(machine_, input_.view, keys_.view);
  v_.multiply(machine_, input_.view, values_.view);
  const LayerKv& kv = kv_.layer(0);
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (int head = 0; head < head_.config.num_kv_heads; ++head) {
      const BatchRow& row = rows[static_cast<size_t>(t)];
      float* key = keys_.view.row(t) + head * head_dim;
      rotate({key, static_cast<size_t>(head_dim)}, cosines_.view.row(t), sines_.view.row(t));
      kv.store(key, kv.keys(row.run->full, row.position, head), row.position);
      kv.store(values_.view.row(t) + head * head_dim, kv.values(row.run->full, row.position, head),
               row.position);
    }
}

void HeadDrafter::attend_to_slots(std::span<const BatchRow> rows) {
  const DraftHeadConfig& head = head_.config;
  const ptrdiff_t num_rows = std::ssize(rows), width = padded(head.head_dim);
  split_queries_.resize(num_rows, head.num_heads * width);
  for (ptrdiff_t n = 0; n < num_rows; ++n)
    for (ptrdiff_t h = 0; h < head.num_heads; ++h)
      to_split(queries_.view.row(n) + h * head.head_dim, head.head_dim,
               split_queries_.view.row(n) + h * width);
  parts_.resize(kParts, head.num_heads * (2 + width));
  attended_.resize(num_rows, padded(ptrdiff_t{1} * head.num_heads * head.head_dim));
  attend({machine_, View<const float, 3>(split_queries_.view.data, {num_rows, head.num_heads, width}), rows,
          kv_.layer(0), Vector{no_sinks_.data(), Format::kF32, head.num_heads}, std::nullopt,
          View<float, 3>(parts_.view.data, {kParts, head.num_heads, 2 + width}), attended_.view});
}

// Computes input_: each row is the norm of the token's embedding, then the norm of its features.
void HeadDrafter::embed_and_norm(View<const float, 2> features, std::span<const BatchRow> rows) {
  const DraftHeadConfig& config = head_.config;
  const ptrdiff_t num_rows = std::ssize(rows), hidden = config.hidden, half = padded(hidden);
  embedded_.resize(num_rows, hidden);
  embed({rows, head_.embedding, embedded_.view});
  input_.resize(num_rows, 2 * half);
  for_each(machine_, num_rows, static_cast<double>(num_rows * hidden), [&](ptrdiff_t t, int) {
    rms_norm(embedded_.view.row(t), head_.token_norm, config.rms_eps, input_.view.row(t));
    rms_norm(features.row(t), head_.hidden_norm, config.rms_eps, input_.view.row(t) + half);
  });
}

// Returns the residual stream of rows `outputs`: normed features if norm_before_residual, else the features.
HeadDrafter::Rows HeadDrafter::residuals_of(View<const float, 2> features, std::span<const int> outputs) {
  const ptrdiff_t hidden = head_.config.hidden, half = padded(hidden);
  Rows residuals;
  residuals.resize(std::ssize(outputs), hidden);
  for (ptrdiff_t n = 0; n < std::ssize(outputs); ++n) {
    const int row = outputs[static_cast<size_t>(n)];
    for (ptrdiff_t i = 0; i < hidden; ++i)
      residuals.view(n, i) =
          head_.config.norm_before_residual ? input_.view(row, half + split_index(i)) : features(row, i);
  }
  return residuals;
}

void HeadDrafter::attend_outputs(std::span<const BatchRow> rows, std::span<const int> outputs) {
  const DraftHeadConfig& config = head_.config;
  const ptrdiff_t num_outputs = std::ssize(outputs), width = 2 * padded(config.hidden);
  std::vector<BatchRow> own_rows;
  own_input_.resize(num_outputs, width);
  queries_.resize(num_outputs, q_.rows());
  for (ptrdiff_t n = 0; n < num_outputs; ++n) {
    const int row = outputs[static_cast<size_t>(n)];
    own_rows.push_back(rows[static_cast<size_t>(row)]);
    std::copy_n(input_.view.row(row), width, own_input_.view.row(n));
  }
  q_.multiply(machine_, own_input_.view, queries_.view);
  for (ptrdiff_t n = 0; n < num_outputs; ++n)
    for (ptrdiff_t h = 0; h < config.num_heads; ++h)
      rotate({queries_.view.row(n) + h * config.head_dim, static_cast<size_t>(config.head_dim)},
             cosines_.view.row(outputs[static_cast<size_t>(n)]),
             sines_.view.row(outputs[static_cast<size_t>(n)]));
  attend_to_slots(own_rows);
}

// Computes to += W x.
void HeadDrafter::add_product(const HeadMatrix& matrix, View<const float, 2> x, Rows& to) {
  projected_.resize(to.view.shape[0], head_.config.hidden);
  matrix.multiply(machine_, x, projected_.view);
  for (size_t i = 0; i < to.elements.size(); ++i) to.elements[i] += projected_.elements[i];
}

void HeadDrafter::add_mlp(Rows& residuals) {
  const DraftHeadConfig& config = head_.config;
  const ptrdiff_t num_rows = residuals.view.shape[0];
  normed_.resize(num_rows, padded(config.hidden));
  gate_out_.resize(num_rows, config.intermediate);
  up_out_.resize(num_rows, config.intermediate);
  gated_.resize(num_rows, padded(config.intermediate));
  for (ptrdiff_t n = 0; n < num_rows; ++n)
    rms_norm(residuals.view.row(n), head_.mlp_norm, config.rms_eps, normed_.view.row(n));
  gate_.multiply(machine_, normed_.view, gate_out_.view);
  up_.multiply(machine_, normed_.view, up_out_.view);
  for (ptrdiff_t n = 0; n < num_rows; ++n)
    for (ptrdiff_t i = 0; i < config.intermediate; ++i) {
      const float gate = gate_out_.view(n, i);
      gated_.view(n, split_index(i)) = gate / (1 + std::exp(-gate)) * up_out_.view(n, i);
    }
  add_product(down_, gated_.view, residuals);
}

// Runs the head's layer. Stores keys and values of all rows, and computes out_ for the rows with indices
// `outputs`. Each row must have the token of the position after its own.
void HeadDrafter::run_layer(View<const float, 2> features, std::span<const BatchRow> rows,
                            std::span<const int> outputs) {
  const ptrdiff_t num_rows = std::ssize(rows), half_dim = head_.config.head_dim / 2;
  embed_and_norm(features, rows);
  cosines_.resize(num_rows, half_dim);
  sines_.resize(num_rows, half_dim);
  rotations({rope_, rows, cosines_.view, sines_.view});
  append(rows);
  if (outputs.empty()) return;

  Rows next = residuals_of(features, outputs);
  attend_outputs(rows, outputs);
  add_product(o_, attended_.view, next);
  add_mlp(next);
  out_ = std::move(next);
}

// Computes features_ = fc (outputs of the tapped layers) for each row whose cache slot the head fills.
// Returns these rows, each with the token of the next position instead of its own token.
std::vector<BatchRow> HeadDrafter::fuse_features(const Batch& batch, const DraftSlots& slots) {
  const DraftHeadConfig& config = head_.config;
  const std::vector<BatchRow> batch_rows = rows_of(batch);
  std::vector<BatchRow> rows;
  Rows split_taps;
  split_taps.resize(std::ssize(slots.rows), taps_.view.shape[1]);
  for (size_t n = 0; n < slots.rows.size(); ++n) {
    const auto t = static_cast<ptrdiff_t>(slots.rows[n]), row = static_cast<ptrdiff_t>(n);
    rows.push_back(
        {slots.next[n], batch_rows[static_cast<size_t>(t)].position, batch_rows[static_cast<size_t>(t)].run});
    if (config.norm_before_fc)
      rms_norm(taps_.view.row(t), head_.features_norm, config.rms_eps, split_taps.view.row(row));
    else
      to_split(taps_.view.row(t), ptrdiff_t{3} * config.hidden, split_taps.view.row(row));
  }
  features_.resize(std::ssize(rows), config.hidden);
  fc_.multiply(machine_, split_taps.view, features_.view);
  return rows;
}

HeadDrafter::ChainRuns HeadDrafter::runs_of_chains(const Batch& batch, const DraftSlots& slots) const {
  ChainRuns all;
  for (const DraftChain& chain : slots.chains) {
    const PageTableView& full = batch.runs[chain.run].full;
    all.pages.push_back(with_scratch_page(full, static_cast<PageId>(num_pages_ + std::ssize(all.pages))));
    all.runs.push_back({.full = {all.pages.back(), full.first_page}});
  }
  return all;
}

// Computes normed_ and logits_ from the first num_rows rows of out_.
void HeadDrafter::compute_logits(ptrdiff_t num_rows) {
  const DraftHeadConfig& config = head_.config;
  normed_.resize(num_rows, padded(config.hidden));
  for (ptrdiff_t n = 0; n < num_rows; ++n)
    rms_norm(out_.view.row(n), head_.final_norm, config.rms_eps, normed_.view.row(n));
  logits_.resize(num_rows, config.draft_vocab);
  unembedding_.multiply(machine_, normed_.view, logits_.view);
}

std::vector<Drafts> HeadDrafter::draft(const Batch& batch, std::span<const SampledToken> outputs) {
  const DraftHeadConfig& config = head_.config;
  const DraftSlots slots = draft_slots(batch, outputs);
  const std::vector<BatchRow> rows = fuse_features(batch, slots);
  const ChainRuns chain_runs = runs_of_chains(batch, slots);
  std::vector<int> ends;
  for (const DraftChain& chain : slots.chains) ends.push_back(chain.row);
  run_layer(features_.view, rows, ends);

  std::vector<Drafts> drafts(slots.chains.empty() ? 0 : batch.runs.size());
  for (const DraftChain& chain : slots.chains) drafts[chain.run].first_position = chain.position + 2;
  Chains live;
  for (size_t n = 0; n < slots.chains.size(); ++n) live.indices.push_back(n);
  for (int step = 0; !live.indices.empty(); ++step) {
    compute_logits(std::ssize(live.indices));
    Chains next;
    Rows features;
    features.resize(std::ssize(live.indices), config.hidden);
    for (size_t n = 0; n < live.indices.size(); ++n) {
      const size_t index = live.indices[n];
      const DraftChain& chain = slots.chains[index];
      const auto row = static_cast<ptrdiff_t>(n);
      const std::vector<Draft> level =
          best_drafts({logits_.view.row(row), static_cast<size_t>(config.draft_vocab)}, head_.tokens,
                      batch.runs[chain.run].draft_request->topk);
      add_level(drafts[chain.run], level);
      if (step + 1 == chain.num_drafts) continue;
      const ptrdiff_t to = std::ssize(next.indices);
      for (ptrdiff_t i = 0; i < config.hidden; ++i)
        features.view(to, i) = config.norm_output ? normed_.view(row, split_index(i)) : out_.view(row, i);
      next.indices.push_back(index);
      next.outputs.push_back(static_cast<int>(to));
      next.rows.push_back({.token = level.front().token,
                           .position = chain.position + 1 + step,
                           .run = &chain_runs.runs[index]});
    }
    live = std::move(next);
    if (!live.indices.empty()) run_layer(features.view, live.rows, live.outputs);
  }
  return drafts;
}

}  // namespace nibble::cpu
