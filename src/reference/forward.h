// The forward pass of gpt-oss in plain loops. It defines what every backend computes: each operation is one
// file in this folder, whose first comment is its formula.
//
// Activations are stored in float32; inside an operation, between load and store, arithmetic is in double.
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

// Receives the residual stream [T, H] after each stage: stage 0 is the embeddings, stage l the output of the
// l-th layer, and stage L + 1 the output of the final norm.
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
  // [T] or empty: minimum over all layers, see RouteArgs::margins.
  std::span<float> router_margins{};
};
void forward(const ForwardArgs& args);

}  // namespace nibble::reference
