// Router: norm, gate, top K, softmax over the chosen experts.
//   h = rms_norm(x)      l = Wr h + br      experts[t] = the K largest of l[t], descending
//   weights[t,k] = exp(l[t,experts[t,k]]) / sum over the K chosen
// Among equal logits the lower index wins. Experts that are not chosen have no part in the softmax.
#pragma once

#include <span>

#include "core/tensors/view.h"
#include "model/weights.h"
#include "reference/adapted_rows.h"

namespace nibble::reference {

struct RouteArgs {
  View<const float, 2> x;     // [T, H]: the residual stream
  const LayerWeights& layer;  // its mlp_norm, router and router_bias are read
  float rms_eps;
  View<float, 2> normed;   // [T, H]: receives h
  View<int, 2> experts;    // [T, K]: receives indices of experts
  View<float, 2> weights;  // [T, K]: receives the experts' weights in the sum
  // [T] or empty: lowered to the token's margin, its last chosen logit minus the largest logit not chosen.
  std::span<float> margins{};
  RowUpdates updates{};  // of the router; [T] or empty
};
void route(const RouteArgs& args);

}  // namespace nibble::reference
