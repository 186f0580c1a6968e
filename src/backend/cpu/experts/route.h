// Router: norm, gate, top K, softmax over the chosen:
//   h = rms_norm(x)      l = Wr h + br      chosen[t] = the K largest of l[t], descending
//   weights[t,k] = exp(l[t,chosen[t,k]]) / sum over the K chosen
// If logits are equal, the lower index is chosen. Memory traffic: Wr (20b: 184 KB per layer). A work item
// runs the whole router for kRowsPerItem rows: another parallel loop would cost more than reading Wr again.
#pragma once

#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/machine.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct RouteArgs {
  const Machine& machine;
  View<const float, 2> x;     // [T, H]: the residual stream
  const LayerWeights& layer;  // its mlp_norm, router and router_bias are read
  float rms_eps;
  View<float, 2> logits;   // [T, E], scratch: the router's logits (l)
  View<float, 2> normed;   // [T, H*]: receives the normed rows (h), which the experts read too
  View<int, 2> chosen;     // [T, K]: receives the indices of experts
  View<float, 2> weights;  // [T, K]: receives the experts' weights in the sum
  LayerAdapters adapters{};
};
void route(const RouteArgs& args);

}  // namespace nibble::cpu
