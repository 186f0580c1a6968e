// Mixture of experts: x[t] += sum_k weights[t,k] (W2[e] h[t,k] + b2[e]),   e = chosen[t,k],
//
//   h[t,k,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[2i], limit)      l = clamp(u[2i+1], -limit, limit)
//   u = W1[e] normed[t] + b1[e]
//
//   W1 [E, 2I, H], W2 [E, H, I] MXFP4 (or BF16): decoded in registers, a block at a time, never expanded in memory
//
// Activations are float32, or, with packed weights, int8 (q8.h): normed once for a token, h as it is made.
//
// Bytes: each expert that any row chose once for each kTokenBlock of its rows; 20b, one token: 52.9 MB a layer.
// Design: (row, k) pairs are grouped by expert, so that an expert's weights pass once for all its rows. The first half is
// shared out by expert and panel of W1, swiglu in the same item, since a panel holds gates beside their linear rows. The
// second half is shared out by panel of W2 alone, all experts in one item: it has all K terms of its elements of x and adds
// them in the order of k, which is the router's: the bits of a row do not depend on which experts its neighbours chose.
#pragma once

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_model.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ExpertsArgs {
  const Machine& machine;
  View<const float, 2> normed;   // [T, H*]
  View<const int, 2> chosen;     // [T, K], below E
  View<const float, 2> weights;  // [T, K]
  const LayerWeights& layer;     // gate_up (W1, b1), down (W2, b2)
  const PackedLayer* packed;     // W1, W2 in strips: activations are int8; or null
  int num_experts;               // E
  float swiglu_limit;
  View<float, 2> gated;  // h [T K, I*], scratch of float activations
  // Scratch of int8 activations, by expert, of an expert by row: rows that share weights lie behind each other.
  View<Q8Block, 2> normed_q8;  // [T K, H / 32]
  View<Q8Block, 2> gated_q8;   // h [T K, I / 32]
  View<float, 3> down_panels;  // [thread, T K, kMaxPanelRows], scratch
  View<float, 2> x;            // [T, H]
};
void experts(const ExpertsArgs& args);

}  // namespace nibble::cpu
