// Mixture of experts: x[t] += sum_k weights[t,k] (W2[e] h[t,k] + b2[e]),   e = chosen[t,k],
//   h[t,k,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[2i], limit)      l = clamp(u[2i+1], -limit, limit)
//   u = W1[e] normed[t] + b1[e]
//   W1 [E, 2I, H], W2 [E, H, I]: decoded by block in registers, never expanded in memory
// W1 and W2 are MXFP4, BF16 or FP8 with float32 activations, read by the same kernels as dense matrices; or
// strips of MXFP4 or Q8_0 with int8 activations (q8.h). Then each normed row is quantised once, and h as soon
// as it is computed. Memory traffic: the weights of an expert once per kTokenBlock of its rows (20b, one
// token: 52.9 MB per layer).
//
// Design: (row, k) pairs are grouped by expert. In the first of two loops, a work item is a panel of one
// expert's W1. The item also applies swiglu, because gates and linear parts are alternate rows. In the second
// loop, a work item is a panel of W2 of all experts. The item adds the K terms of an element of x in the
// router's order of k, so the result of a row does not depend on other rows' experts.
#pragma once

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_model.h"
#include "core/tensors/index_range.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ExpertsArgs {
  const Machine& machine;
  View<const float, 2> normed;   // [T, H*]: the residual stream after the norm
  View<const int, 2> chosen;     // [T, K]: indices of experts, 0 to E - 1
  View<const float, 2> weights;  // [T, K]: the experts' weights in the sum
  const LayerWeights& layer;    // its gate_up (W1, b1) and down (W2, b2), of the rank's own experts, are read
  const PackedExperts* packed;  // W1, W2 in strips, for int8 activations; or null
  IndexRange own;               // the experts whose weights this rank has; other experts add nothing
  float swiglu_limit;
  View<float, 2> gated;  // [T K, I*], scratch for float activations: the outputs of swiglu (h)
  // Scratch for int8 activations. Rows are sorted by expert: rows with the same weights are adjacent.
  View<Q8Block, 2> normed_q8;  // [T K, H / 32]: normed rows
  View<Q8Block, 2> gated_q8;   // [T K, I / 32]: the outputs of swiglu (h)
  View<float, 3> down_panels;  // [thread, T K, kMaxPanelRows], scratch: products with W2
  View<float, 2> x;            // [T, H]: the residual stream
};
void experts(const ExpertsArgs& args);

}  // namespace nibble::cpu
