#include "reference/route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/array.h"
#include "reference/linear.h"
#include "reference/rms_norm.h"

namespace nibble::reference {
namespace {

// Routes one token by its E logits: writes K experts and weights. Returns the margin (RouteArgs::margins).
float choose(const float* logits, int num_experts, int* experts, float* weights, int experts_per_token) {
  std::vector<int> order(num_experts);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return logits[a] > logits[b]; });
  std::copy_n(order.begin(), experts_per_token, experts);

  const double max = logits[experts[0]];
  double sum = 0;
  for (int k = 0; k < experts_per_token; ++k) sum += std::exp(logits[experts[k]] - max);
  for (int k = 0; k < experts_per_token; ++k)
    weights[k] = static_cast<float>(std::exp(logits[experts[k]] - max) / sum);
  if (experts_per_token == num_experts) return std::numeric_limits<float>::infinity();
  return logits[order[experts_per_token - 1]] - logits[order[experts_per_token]];
}

}  // namespace

void route(const RouteArgs& args) {
  const LayerWeights& layer = args.layer;
  rms_norm({args.x, layer.mlp_norm, args.rms_eps, args.normed});
  const Array<float, 2> logits({args.x.shape[0], layer.router.rows});
  linear({args.normed, layer.router, layer.router_bias, logits, nullptr, Rounding{}, args.updates});
  for (ptrdiff_t t = 0; t < args.x.shape[0]; ++t) {
    const float margin = choose(logits.view().row(t), layer.router.rows, args.experts.row(t),
                                args.weights.row(t), static_cast<int>(args.experts.shape[1]));
    if (!args.margins.empty()) args.margins[t] = std::min(args.margins[t], margin);
  }
}

}  // namespace nibble::reference
