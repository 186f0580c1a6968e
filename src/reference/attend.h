// Attention of each row over its sequence, with a learned sink per head.
//   s_j = (q . k_j) / sqrt(D)        out = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
//   m = max(max_j s_j, sink)
//   j: the positions up to the row's own; with a window, only the last `window` of them
// The sink is an extra softmax column without a value: it only shrinks the weights. It is not scaled by
// 1/sqrt(D). Query head h reads key/value head h / (Nq / Nkv).
#pragma once

#include <optional>
#include <span>

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"
#include "reference/kv_cache.h"

namespace nibble::reference {

struct AttendArgs {
  View<const float, 3> q;  // [T, Nq, D]: rotated queries
  std::span<const BatchRow> rows;
  LayerKv kv;
  Vector sinks;               // [Nq]: the score of each head's sink
  std::optional<int> window;  // positions that a row sees, including its own; not set: all positions
  View<float, 2> attended;    // [T, Nq D]: receives the output of every head
  ThreadPool* pool{};
};
void attend(const AttendArgs& args);

}  // namespace nibble::reference
