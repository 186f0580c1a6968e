// Router: norm, gate, top K, softmax over the chosen experts.
//   h = rms_norm(x)      l = Wr h + br      experts[t] = the K largest of l[t], descending
//   weights[t,k] = exp(l[t,experts[t,k]]) / sum over the K chosen
// Among equal logits the lower index wins. Experts that are not chosen have no part in the softmax.
#pragma once

#include <span>

#include "core/view.h"
#include "model/weights.h"

namespace nibble::reference {

struct RouteArgs {
  View<const float, 2> x;     // [T, H]
  const LayerWeights& layer;  // mlp_norm, router, router_bias
  float rms_eps;
  View<float, 2> normed;   // h [T, H]
  View<int, 2> experts;    // [T, K]
  View<float, 2> weights;  // [T, K]
  // [T] or empty. Lowered to the token's margin, if smaller: last chosen logit minus first logit not chosen.
  std::span<float> margins{};
};
void route(const RouteArgs& args);

}  // namespace nibble::reference
