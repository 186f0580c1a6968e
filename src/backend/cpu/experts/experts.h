// Mixture of experts: x[t] += sum_k weights[t,k] (W2[e] h[t,k] + b2[e]),   e = chosen[t,k],
//   h[t,k,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[2i], limit)      l = clamp(u[2i+1], -limit, limit)
//   u = W1[e] normed[t] + b1[e]
//   W1 [E, 2I, H], W2 [E, H, I] MXFP4 (or BF16): decoded by block in registers, never expanded in memory
// Activations are float32 or, with packed weights, int8 (q8.h): quantised once per token after the norm, and
// h where it is computed. Bytes: an expert is read once per kTokenBlock of its rows (20b, one token: 52.9 MB
// per layer).
//
// Design: (row, k) pairs are grouped by expert. A work item of the first half is a panel of one expert's W1,
// and applies swiglu as well, since gates and their linear rows alternate. An item of the second half is a
// panel of W2 of all experts: it adds the K terms of its elements of x in the router's order of k, so the
// bits of a row do not depend on the experts of other rows.
#pragma once

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_model.h"
#include "core/index_range.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ExpertsArgs {
  const Machine& machine;
  View<const float, 2> normed;   // [T, H*]
  View<const int, 2> chosen;     // [T, K], below E
  View<const float, 2> weights;  // [T, K]
  const LayerWeights& layer;     // gate_up (W1, b1), down (W2, b2) of its own experts
  const PackedLayer* packed;     // W1, W2 in strips, for int8 activations; or null
  IndexRange own;                // of the E experts, those with weights on this rank; the others add nothing
  float swiglu_limit;
  View<float, 2> gated;  // h [T K, I*], scratch for float activations
  // Scratch for int8 activations, sorted by expert, then by row: rows that share weights are adjacent.
  View<Q8Block, 2> normed_q8;  // [T K, H / 32]
  View<Q8Block, 2> gated_q8;   // h [T K, I / 32]
  View<float, 3> down_panels;  // [thread, T K, kMaxPanelRows], scratch
  View<float, 2> x;            // [T, H]
};
void experts(const ExpertsArgs& args);

}  // namespace nibble::cpu
