// First part of the attention block: norm, project, rotate, append to the pages of each row's sequence.
//   h = rms_norm(x)      q = rotate(Wq h + bq)      k = rotate(Wk h + bk)      v = Wv h + bv
#pragma once

#include <span>

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/weights.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct QkvArgs {
  View<const float, 2> x;  // [T, H]
  std::span<const BatchRow> rows;
  const LayerWeights& layer;  // attention_norm, q, k, v and their biases
  float rms_eps;
  const RopeTable& rope;
  View<float, 3> q;  // [T, Nq, D]
  LayerKv kv;
  ThreadPool* pool{};
  Rounding rounding{};  // of h, and of the stored keys and values
};
void qkv(const QkvArgs& args);

}  // namespace nibble::reference
