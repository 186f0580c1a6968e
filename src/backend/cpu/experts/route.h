// Router: norm, gate, top K, softmax over the chosen:
//   h = rms_norm(x)      l = Wr h + br      chosen[t] = the K largest of l[t], descending
//   weights[t,k] = exp(l[t,chosen[t,k]]) / sum over the K chosen
// The lower index wins among equal logits. Bytes: Wr (20b: 184 KB per layer). A work item runs the whole
// router for a few rows, since starting a second parallel loop would cost more than reading Wr.
#pragma once

#include "backend/cpu/machine.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct RouteArgs {
  const Machine& machine;
  View<const float, 2> x;     // [T, H]
  const LayerWeights& layer;  // mlp_norm, router, router_bias
  float rms_eps;
  View<float, 2> logits;   // l [T, E], scratch
  View<float, 2> normed;   // h [T, H*]
  View<int, 2> chosen;     // [T, K]
  View<float, 2> weights;  // [T, K]
};
void route(const RouteArgs& args);

}  // namespace nibble::cpu
