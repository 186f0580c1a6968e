// The forward pass of gpt-oss in plain loops: it defines what every backend computes. Each operation is one
// file in this folder; the first comment of the file is the formula. Activations are float32 in memory;
// arithmetic between load and store is in double.
#pragma once

#include <functional>
#include <span>

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/adapter/request_adapter.h"
#include "model/operation.h"
#include "model/weights.h"
#include "reference/activations.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace nibble::reference {

// Receives the residual stream [T, H] after each stage: 0 embedding, 1 to L the layers, L + 1 the final norm.
using Trace = std::function<void(int stage, View<const float, 2> hidden)>;

// Called after embed (layer -1) and after each operation of a layer. experts() is one operation here: it is
// reported once, as kExpertsUp, after both of its products (up and down).
using Observe = std::function<void(int layer, Operation operation, const Activations& a)>;

struct ForwardArgs {
  const Weights& weights;
  const RopeTable& rope;
  std::span<const BatchRow> rows;
  std::span<const int> outputs;  // indices of the rows whose logits are computed
  KvCache& kv;                   // receives keys and values of all rows
  View<float, 2> logits;         // [outputs.size(), V]: receives the logits
  Trace trace{};
  ThreadPool* pool{};  // null: runs on the calling thread
  Rounding rounding{};
  std::span<float> router_margins{};  // [T] or empty: receives the minimum over layers of RouteArgs::margins
  Observe observe{};
  std::span<const RequestAdapter> adapters{};  // adapters, indexed by BatchRow::adapter
};
void forward(const ForwardArgs& args);

}  // namespace nibble::reference
