// The forward pass of gpt-oss in plain loops: it defines what every backend computes. Each operation is one
// file in this folder, whose first comment is its formula. Activations are float32 in memory; arithmetic
// between load and store is in double.
#pragma once

#include <functional>
#include <span>

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/weights.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace nibble::reference {

// Receives the residual stream [T, H] after each stage: 0 embeddings, 1 to L layers, L + 1 final norm.
using Trace = std::function<void(int stage, View<const float, 2> hidden)>;

struct ForwardArgs {
  const Weights& weights;
  const RopeTable& rope;
  std::span<const BatchRow> rows;  // [T]
  std::span<const int> outputs;    // rows for which logits are computed
  KvCache& kv;                     // keys and values of all rows are written
  View<float, 2> logits;           // [number of outputs, V]
  Trace trace{};
  ThreadPool* pool{};  // null: runs on the calling thread
  Rounding rounding{};
  std::span<float> router_margins{};  // [T] or empty: minimum over all layers of RouteArgs::margins
};
void forward(const ForwardArgs& args);

}  // namespace nibble::reference
