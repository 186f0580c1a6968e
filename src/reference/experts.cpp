#include "reference/experts.h"

#include <algorithm>
#include <vector>

#include "reference/array.h"
#include "reference/linear.h"
#include "reference/swiglu.h"
#include "reference/threads.h"

namespace nibble::reference {
namespace {

struct Choice {
  ptrdiff_t t, k;  // row t, and index k of one of its K experts
};

std::vector<std::vector<Choice>> choices_of_experts(View<const int, 2> experts, int num_experts) {
  std::vector<std::vector<Choice>> choices(num_experts);
  for (ptrdiff_t t = 0; t < experts.shape[0]; ++t)
    for (ptrdiff_t k = 0; k < experts.shape[1]; ++k) choices[experts(t, k)].push_back({t, k});
  return choices;
}

}  // namespace

void experts(const ExpertsArgs& args) {
  const LayerWeights& layer = args.layer;
  const ptrdiff_t num_tokens = args.x.shape[0], hidden = args.x.shape[1],
                  experts_per_token = args.experts.shape[1];
  const Array<float, 3> outputs({num_tokens, experts_per_token, hidden});
  const View<float, 3> y = outputs.view();

  const auto choices = choices_of_experts(args.experts, args.num_experts);
  const ptrdiff_t num_products = num_tokens * experts_per_token * 3 * hidden * layer.down.first.cols;
  // An item is a whole expert. Experts run in parallel, so linear() gets no pool.
  for_each(args.pool, args.num_experts, num_products, [&](ptrdiff_t item, int) {
    const auto e = static_cast<int>(item);
    const ptrdiff_t count = std::ssize(choices[e]);
    if (count == 0) return;
    const Array<float, 2> h({count, hidden}), up({count, layer.gate_up.first.rows});
    const Array<float, 2> gated({count, layer.down.first.cols}), out({count, hidden});
    for (ptrdiff_t i = 0; i < count; ++i)
      std::copy_n(args.normed.row(choices[e][i].t), hidden, h.view().row(i));
    linear({h, layer.gate_up.matrix(e), layer.gate_up.bias(e), up, nullptr, args.rounding});
    swiglu({up, args.swiglu_limit, gated});
    linear({gated, layer.down.matrix(e), layer.down.bias(e), out, nullptr, args.rounding});
    for (ptrdiff_t i = 0; i < count; ++i)
      std::copy_n(out.view().row(i), hidden, y.row(choices[e][i].t, choices[e][i].k));
  });

  for (ptrdiff_t t = 0; t < num_tokens; ++t)
    for (ptrdiff_t i = 0; i < hidden; ++i) {
      double sum = args.x(t, i);
      for (ptrdiff_t k = 0; k < experts_per_token; ++k)
        sum += double{args.weights(t, k)} * double{y(t, k, i)};
      args.x(t, i) = static_cast<float>(sum);
    }
}

}  // namespace nibble::reference
