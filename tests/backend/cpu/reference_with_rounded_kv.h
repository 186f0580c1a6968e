// The reference's forward pass with the one rounding that the CPU backend adds to float32: keys and values in BF16 or
// FP8. The two then differ only in the order of float32 sums.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "core/bf16.h"
#include "core/e4m3.h"
#include "reference/activations.h"
#include "reference/attend.h"
#include "reference/embed.h"
#include "reference/experts.h"
#include "reference/linear.h"
#include "reference/qkv.h"
#include "reference/route.h"
#include "reference/unembed.h"

namespace nibble::cpu {

struct ReferenceResult {
  std::vector<float> logits;  // [T, V]
  std::vector<float>
      router_margin;  // [T]: least distance, over the layers, of the last expert chosen to the next
};

// The router's margin at row t; `normed` [T, H] is the router's input.
inline std::vector<float> router_margins(const LayerWeights& layer, View<const float, 2> normed,
                                         int num_chosen) {
  const reference::Array<float, 2> logits({normed.shape[0], layer.router.rows});
  reference::linear({normed, layer.router, layer.router_bias, logits});
  std::vector<float> margins;
  for (ptrdiff_t t = 0; t < normed.shape[0]; ++t) {
    float* row = logits.view().row(t);
    std::sort(row, row + layer.router.rows, std::greater<>());
    margins.push_back(row[num_chosen - 1] - row[num_chosen]);
  }
  return margins;
}

// Runs one sequence from position 0; returns the logits of every position.
inline ReferenceResult reference_with_rounded_kv(const Weights& weights, std::span<const TokenId> ids,
                                                 Format kv_format = Format::kBf16) {
  const Config& config = weights.config;
  const int num_pages = static_cast<int>(ids.size()) / kPageTokens + 1;
  std::vector<PageId> pages;
  for (int page = 0; page < num_pages; ++page) pages.push_back(PageId{static_cast<uint32_t>(page)});
  std::vector<reference::BatchRow> rows;
  std::vector<int> outputs;
  for (const TokenId id : ids) {
    const int t = static_cast<int>(rows.size());
    rows.push_back({id, t, {pages}, {pages}});
    outputs.push_back(t);
  }
  const reference::RopeTable rope = reference::make_rope_table(config.rope, config.head_dim);
  const reference::KvCache kv_cache(config, num_pages, num_pages);
  reference::Activations a(config, std::ssize(rows));
  ReferenceResult result{std::vector<float>(ids.size() * config.vocab),
                         std::vector<float>(ids.size(), std::numeric_limits<float>::infinity())};

  reference::embed({rows, weights.embedding, a.x});
  for (const LayerWeights& layer : weights.layers) {
    const reference::LayerKv& kv = kv_cache.layer(&layer - weights.layers.data());
    const auto window = layer.kind == LayerKind::kSliding ? std::optional(config.window) : std::nullopt;
    reference::qkv({a.x, rows, layer, config.rms_eps, rope, a.q, kv});
    for (const View<float, 4>& elements : {kv.keys, kv.values})
      for (ptrdiff_t i = 0; i < elements.shape[0] * elements.stride[0]; ++i)
        elements.data[i] = kv_format == Format::kE4m3 ? to_float(to_e4m3(elements.data[i]))
                                                      : to_float(to_bf16(elements.data[i]));
    reference::attend({a.q, rows, kv, layer.sinks, window, a.attended});
    reference::project({a.attended, layer.o, layer.o_bias, a.x});
    reference::route({a.x, layer, config.rms_eps, a.normed, a.chosen, a.chosen_weights});
    const std::vector<float> margins = router_margins(layer, a.normed, config.experts_per_token);
    std::transform(margins.begin(), margins.end(), result.router_margin.begin(), result.router_margin.begin(),
                   [](float x, float y) { return std::min(x, y); });
    reference::experts(
        {a.normed, a.chosen, a.chosen_weights, layer, config.num_experts, config.swiglu_limit, a.x});
  }
  reference::unembed({a.x,
                      outputs,
                      weights.final_norm,
                      weights.unembedding,
                      config.rms_eps,
                      a.normed,
                      {result.logits.data(), {std::ssize(ids), config.vocab}}});
  return result;
}

}  // namespace nibble::cpu
