#include "reference/draft_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backend/draft_chain.h"
#include "reference/attend.h"
#include "reference/embed.h"
#include "reference/linear.h"
#include "reference/rms_norm.h"

namespace nibble::reference {
namespace {

RopeTable rope_table(const DraftHeadConfig& head) {
  return {.frequencies = rope_frequencies(head).frequencies, .concentration = 1};
}

Array<float, 2> rows_at(const View<const float, 2>& x, std::span<const int> rows) {
  Array<float, 2> chosen({std::ssize(rows), x.shape[1]});
  for (size_t n = 0; n < rows.size(); ++n)
    std::copy_n(x.row(rows[n]), x.shape[1], chosen.view().row(static_cast<ptrdiff_t>(n)));
  return chosen;
}

std::vector<int> positions_of(std::span<const BatchRow> rows) {
  std::vector<int> positions;
  for (const BatchRow& row : rows) positions.push_back(row.position);
  return positions;
}

// z = [norm(E[t]), norm(f)] of each row; letters as in draft_head.h
Array<float, 2> layer_input(const DraftLayerArgs& args) {
  const DraftHead& head = args.head;
  const ptrdiff_t num_rows = std::ssize(args.rows), hidden = head.config.hidden;
  const Array<float, 2> embedded({num_rows, hidden}), token({num_rows, hidden}), normed({num_rows, hidden});
  embed({args.rows, head.embedding, embedded});
  rms_norm({embedded, head.token_norm, head.config.rms_eps, token});
  rms_norm({args.features, head.hidden_norm, head.config.rms_eps, normed});
  Array<float, 2> input({num_rows, 2 * hidden});
  for (ptrdiff_t t = 0; t < num_rows; ++t) {
    std::copy_n(token.view().row(t), hidden, input.view().row(t));
    std::copy_n(normed.view().row(t), hidden, input.view().row(t) + hidden);
  }
  return input;
}

void append_slots(const DraftLayerArgs& args, const Array<float, 2>& input) {
  const ptrdiff_t num_rows = std::ssize(args.rows), num_heads = args.head.config.num_kv_heads,
                  head_dim = args.head.config.head_dim;
  const Array<float, 3> k({num_rows, num_heads, head_dim}), v({num_rows, num_heads, head_dim});
  const auto merged = [&](const Array<float, 3>& x) {
    return View<float, 2>(x.view().data, {num_rows, num_heads * head_dim});
  };
  linear({input, args.head.k, {}, merged(k), args.pool});
  linear({input, args.head.v, {}, merged(v), args.pool});
  rotate({k, positions_of(args.rows), args.rope});
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (int head = 0; head < num_heads; ++head) {
      const BatchRow& row = args.rows[static_cast<size_t>(t)];
      std::copy_n(k.view().row(t, head), head_dim, args.kv.key(row, head, row.position));
      std::copy_n(v.view().row(t, head), head_dim, args.kv.value(row, head, row.position));
    }
}

}  // namespace

void join_features(const JoinFeaturesArgs& args) {
  const DraftHead& head = args.head;
  if (!head.config.norm_before_fc) return linear({args.taps, head.fc, {}, args.features, args.pool});
  const Array<float, 2> normed({args.taps.shape[0], args.taps.shape[1]});
  rms_norm({args.taps, head.features_norm, head.config.rms_eps, normed});
  linear({normed, head.fc, {}, args.features, args.pool});
}

void draft_layer(const DraftLayerArgs& args) {
  const DraftHead& head = args.head;
  const DraftHeadConfig& config = head.config;
  const Array<float, 2> input = layer_input(args);
  append_slots(args, input);

  std::vector<BatchRow> rows;
  for (const int row : args.outputs) rows.push_back(args.rows[static_cast<size_t>(row)]);
  const ptrdiff_t num_rows = std::ssize(rows), width = ptrdiff_t{1} * config.num_heads * config.head_dim;
  const Array<float, 3> q({num_rows, config.num_heads, config.head_dim});
  const Array<float, 2> attended({num_rows, width});
  linear({rows_at(input, args.outputs),
          head.q,
          {},
          View<float, 2>(q.view().data, {num_rows, width}),
          args.pool});
  rotate({q, positions_of(rows), args.rope});
  const std::vector<float> no_sinks(static_cast<size_t>(config.num_heads),
                                    -std::numeric_limits<float>::infinity());
  attend({q,
          rows,
          args.kv,
          {no_sinks.data(), Format::kF32, config.num_heads},
          std::nullopt,
          attended,
          args.pool});

  const View<float, 2> r = args.out;
  for (ptrdiff_t n = 0; n < num_rows; ++n) {
    const int row = args.outputs[static_cast<size_t>(n)];
    const float* residual =
        config.norm_before_residual ? input.view().row(row) + config.hidden : args.features.row(row);
    std::copy_n(residual, config.hidden, r.row(n));
  }
  project({attended, head.o, {}, r, args.pool});
  const Array<float, 2> y({num_rows, config.hidden}), gate({num_rows, config.intermediate}),
      up({num_rows, config.intermediate});
  rms_norm({r, head.mlp_norm, config.rms_eps, y});
  linear({y, head.gate, {}, gate, args.pool});
  linear({y, head.up, {}, up, args.pool});
  for (ptrdiff_t n = 0; n < num_rows; ++n)
    for (ptrdiff_t i = 0; i < config.intermediate; ++i) {
      const double g = gate.view()(n, i);
      up.view()(n, i) = static_cast<float>(g / (1 + std::exp(-g)) * up.view()(n, i));
    }
  project({up, head.down, {}, r, args.pool});
}

void draft_logits(const DraftLogitsArgs& args) {
  rms_norm({args.out, args.head.final_norm, args.head.config.rms_eps, args.normed});
  linear({args.normed, args.head.unembedding, {}, args.logits, args.pool});
}

HeadDrafter::HeadDrafter(const DraftHead& head, const Weights& model, int num_pages)
    : head_(with_parts_of(model, head)),
      num_pages_(num_pages),
      rope_(rope_table(head_.config)),
      kv_(draft_cache_config(head_.config), num_pages + kMaxDraftingRuns),
      taps_({0, 0}) {}

size_t HeadDrafter::num_bytes(const DraftHeadConfig& head, int num_pages) {
  return KvCache::num_bytes(draft_cache_config(head), num_pages + kMaxDraftingRuns);
}

Trace HeadDrafter::trace(ptrdiff_t num_rows) {
  const ptrdiff_t hidden = head_.config.hidden;
  taps_ = Array<float, 2>({num_rows, static_cast<ptrdiff_t>(DraftHeadConfig::kNumTaps) * hidden});
  return [this, hidden](int stage, View<const float, 2> x) {
    const auto& taps = head_.config.taps;
    const auto tap = std::ranges::find(taps, stage - 1);
    if (tap == taps.end()) return;
    for (ptrdiff_t t = 0; t < x.shape[0]; ++t)
      std::copy_n(x.row(t), hidden, taps_.view().row(t) + (tap - taps.begin()) * hidden);
  };
}

std::vector<Drafts> HeadDrafter::draft(const Batch& batch, std::span<const BatchRow> rows,
                                       std::span<const SampledToken> outputs, ThreadPool* pool) {
  const DraftHead& head = head_;
  DraftSlots slots = draft_slots(batch, outputs);
  std::vector<BatchRow> slot_rows;
  for (size_t n = 0; n < slots.rows.size(); ++n) {
    slot_rows.push_back(rows[static_cast<size_t>(slots.rows[n])]);
    slot_rows.back().token = slots.next[n];
    slot_rows.back().path.clear();
  }
  std::vector<int> ends;
  for (const DraftChain& chain : slots.chains) ends.push_back(chain.row);
  const Array<float, 2> features({std::ssize(slot_rows), head.config.hidden});
  join_features({head, rows_at(taps_, slots.rows), features, pool});
  Array<float, 2> out({std::ssize(ends), head.config.hidden});
  const LayerKv& kv = kv_.layer(0);
  draft_layer({head, rope_, features, slot_rows, ends, kv, out, pool});

  std::vector<Drafts> drafts(slots.chains.empty() ? 0 : batch.runs.size());
  for (const DraftChain& chain : slots.chains) drafts[chain.run].first_position = chain.position + 2;
  std::vector<std::vector<PageId>> pages;  // page table of each chain, with its scratch page
  for (const DraftChain& chain : slots.chains)
    pages.push_back(
        with_scratch_page(batch.runs[chain.run].full, static_cast<PageId>(num_pages_ + std::ssize(pages))));
  // Indices of the chains that are not complete yet; row n of `out` belongs to chain live[n].
  std::vector<size_t> live(slots.chains.size());
  for (size_t n = 0; n < live.size(); ++n) live[n] = n;
  for (int step = 0; !live.empty(); ++step) {
    const auto num_live = std::ssize(live);
    const Array<float, 2> normed({num_live, head.config.hidden}), logits({num_live, head.config.draft_vocab});
    draft_logits({head, out, normed, logits, pool});
    std::vector<size_t> next;
    std::vector<int> kept, all;
    std::vector<BatchRow> chain_rows;
    for (size_t n = 0; n < live.size(); ++n) {
      const DraftChain& chain = slots.chains[live[n]];
      const std::span<const float> row(logits.view().row(static_cast<ptrdiff_t>(n)),
                                       static_cast<size_t>(head.config.draft_vocab));
      const std::vector<Draft> level =
          best_drafts(row, head.tokens, batch.runs[chain.run].draft_request->topk);
      add_level(drafts[chain.run], level);
      if (step + 1 == chain.num_drafts) continue;
      next.push_back(live[n]);
      kept.push_back(static_cast<int>(n));
      all.push_back(static_cast<int>(all.size()));
      const PageTableView& full = batch.runs[chain.run].full;
      chain_rows.push_back({.token = level.front().token,
                            .position = chain.position + 1 + step,
                            .full = {pages[live[n]], full.first_page},
                            .sliding = {}});
    }
    if (next.empty()) break;
    const Array<float, 2> before = rows_at(head.config.norm_output ? normed : out, kept);
    out = Array<float, 2>({std::ssize(next), head.config.hidden});
    draft_layer({head, rope_, before, chain_rows, all, kv, out, pool});
    live = std::move(next);
  }
  return drafts;
}

}  // namespace nibble::reference
