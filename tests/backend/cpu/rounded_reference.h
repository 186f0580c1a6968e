// Runs the reference on one sequence with the roundings that the CPU backend adds to float32. Reference and
// backend then differ only in the order of float32 sums.
#pragma once

#include <limits>
#include <vector>

#include "reference/array.h"
#include "reference/forward.h"

namespace nibble::cpu {

struct ReferenceResult {
  std::vector<float> logits;  // [T, V]
  // [T]: gap between the router logits of the last chosen expert and the next one, the smallest of all layers
  std::vector<float> router_margin;
};

// Runs `ids` from position 0 and returns the logits of every position.
inline ReferenceResult rounded_reference(const Weights& weights, std::span<const TokenId> ids,
                                         const reference::Rounding& rounding = {.kv = Format::kBf16}) {
  const Config& config = weights.config;
  const int num_pages = static_cast<int>(ids.size()) / kPageTokens + 1;
  std::vector<PageId> pages;
  for (int page = 0; page < 2 * num_pages; ++page) pages.push_back(PageId{static_cast<uint32_t>(page)});
  const std::span<const PageId> all(pages);
  std::vector<reference::BatchRow> rows;
  std::vector<int> outputs;
  for (const TokenId id : ids) {
    const int t = static_cast<int>(rows.size());
    rows.push_back({id, t, {all.first(num_pages)}, {all.last(num_pages)}});
    outputs.push_back(t);
  }
  const reference::RopeTable rope = reference::make_rope_table(config.rope, config.head_dim);
  reference::KvCache kv(config, 2 * num_pages);
  ReferenceResult result{std::vector<float>(ids.size() * config.vocab),
                         std::vector<float>(ids.size(), std::numeric_limits<float>::infinity())};
  reference::forward({weights,
                      rope,
                      rows,
                      outputs,
                      kv,
                      {result.logits.data(), {std::ssize(ids), config.vocab}},
                      {},
                      nullptr,
                      rounding,
                      result.router_margin});
  return result;
}

}  // namespace nibble::cpu
