#include "backend/cpu/experts/route.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/dense/dot.h"
#include "backend/cpu/dense/rms_norm.h"
#include "backend/cpu/parallel.h"

namespace nibble::cpu {
namespace {

constexpr ptrdiff_t kRowsPerItem{4};  // maximum number of tokens that a float kernel multiplies at once

int largest_but(std::span<const int> taken, std::span<const float> logits) {
  int best = -1;
  for (int e = 0; e < std::ssize(logits); ++e) {
    if (std::ranges::find(taken, e) != taken.end()) continue;
    if (best < 0 || logits[e] > logits[best]) best = e;
  }
  return best;
}

void choose(std::span<const float> logits, std::span<int> chosen, float* weights) {
  for (size_t k = 0; k < chosen.size(); ++k) chosen[k] = largest_but(chosen.first(k), logits);
  float sum = 0;
  for (size_t k = 0; k < chosen.size(); ++k)
    sum += (weights[k] = std::exp(logits[chosen[k]] - logits[chosen[0]]));
  for (size_t k = 0; k < chosen.size(); ++k) weights[k] /= sum;
}

void route_rows(const RouteArgs& args, ptrdiff_t first, ptrdiff_t count) {
  const ptrdiff_t num_experts = args.layer.router.rows;
  const float* normed[kRowsPerItem];
  for (ptrdiff_t t = 0; t < count; ++t) {
    rms_norm(args.x.row(first + t), args.layer.mlp_norm, args.rms_eps, args.normed.row(first + t));
    normed[t] = args.normed.row(first + t);
  }
  const View<float, 2> logits(args.logits.row(first), {count, num_experts});
  dot(args.machine.kernels, PanelArgs{args.layer.router, 0, normed, logits});
  for (ptrdiff_t t = 0; t < count; ++t) {
    for (ptrdiff_t e = 0; e < num_experts; ++e) logits(t, e) += args.layer.router_bias[e];
    args.adapters.multiply(first + t, &LayerUpdates::router, normed[t]);
    args.adapters.add(first + t, &LayerUpdates::router, 0, {logits.row(t), static_cast<size_t>(num_experts)});
    choose({logits.row(t), static_cast<size_t>(num_experts)},
           {args.chosen.row(first + t), static_cast<size_t>(args.chosen.shape[1])},
           args.weights.row(first + t));
  }
}

}  // namespace

void route(const RouteArgs& args) {
  const ptrdiff_t num_tokens = args.x.shape[0];
  const double work = 1.0 * args.layer.router.rows * args.layer.router.cols * static_cast<double>(num_tokens);
  for_each(args.machine, (num_tokens + kRowsPerItem - 1) / kRowsPerItem, work, [&](ptrdiff_t item, int) {
    const ptrdiff_t first = item * kRowsPerItem;
    route_rows(args, first, std::min(kRowsPerItem, num_tokens - first));
  });
}

}  // namespace nibble::cpu
