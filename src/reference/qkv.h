// First part of the attention block: norm, project, rotate, append keys and values to the cache.
//   h = rms_norm(x)      q = rotate(Wq h + bq)      k = rotate(Wk h + bk)      v = Wv h + bv
#pragma once

#include <span>

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"
#include "reference/adapted_rows.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct QkvArgs {
  View<const float, 2> x;  // [T, H]: the residual stream
  std::span<const BatchRow> rows;
  const LayerWeights& layer;  // its attention_norm, q, k, v and their biases are read
  float rms_eps;
  const RopeTable& rope;
  View<float, 3> q;  // [T, Nq, D]: receives the rotated queries
  LayerKv kv;
  ThreadPool* pool{};
  // Applied to h before products with q, k and v (adapters read h unrounded), and to stored keys and values.
  Rounding rounding{};
  LayerAdapters adapters{};  // adapters that the rows use in this layer
};
void qkv(const QkvArgs& args);

}  // namespace nibble::reference
