// First part of the attention block: norm, projections, rotation, and storage of keys and values:
//   h = rms_norm(x)      q = rotate(Wq h + bq)      k = rotate(Wk h + bk)      v = Wv h + bv
// An adapter's update is added before the rotation.
// Memory traffic: the weights (20b: 26.5 MB per layer) at most once per kTokenBlock rows of the step. A work
// item is one head of q, k or v. So the rotation, which couples elements D/2 apart, needs no second pass.
#pragma once

#include <span>

#include "backend/cpu/batch_row.h"
#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

inline constexpr int kMaxHeadDim{256};  // bound of the arrays on the stack that hold a head

struct QkvArgs {
  const Machine& machine;
  View<const float, 2> x;  // [T, H]: the residual stream
  std::span<const BatchRow> rows;
  const LayerWeights& layer;   // its attention_norm, q, k, v and their biases are read
  const PackedMatrix* packed;  // q, k and v in strips, for int8 activations; or null
  float rms_eps;
  View<const float, 2> cosines, sines;  // [T, D/2]: rotation of each row
  View<float, 2> normed;                // [T, H*], scratch: the normed rows (h)
  View<Q8Block, 2> normed_q8;           // [T, H / 32], scratch: the normed rows in int8
  View<float, 3> q;                     // [T, Nq, D*]: receives the rotated queries
  LayerKv kv;
  LayerAdapters adapters{};
};
void qkv(const QkvArgs& args);

}  // namespace nibble::cpu
