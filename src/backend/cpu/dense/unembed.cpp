#include "backend/cpu/dense/unembed.h"

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/dense/dot.h"
#include "backend/cpu/dense/rms_norm.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/q8.h"
#include "core/errors/check.h"

namespace nibble::cpu {
namespace {

const DenseUpdate* update_of(const UnembedArgs& args, ptrdiff_t output) {
  const RequestAdapter* adapter = args.adapters.of(args.outputs[static_cast<size_t>(output)]);
  return adapter && adapter->unembedding ? &*adapter->unembedding : nullptr;
}

}  // namespace

void unembed(const UnembedArgs& args) {
  const ptrdiff_t num_outputs = std::ssize(args.outputs);
  NIBBLE_CHECK(num_outputs <= kOutputRows, "{} output rows at once", num_outputs);
  const auto product = [&](ptrdiff_t o) { return args.adapters.products.row(o, 0); };
  const float* normed[kOutputRows];
  const Q8Block* normed_q8[kOutputRows];
  const auto norm_work = static_cast<double>(num_outputs * args.x.shape[1]);
  for_each(args.machine, num_outputs, norm_work, [&](ptrdiff_t o, int) {
    normed[o] = args.normed.row(o);
    rms_norm(args.x.row(args.outputs[o]), args.final_norm, args.rms_eps, args.normed.row(o));
    if (args.packed) to_q8(normed[o], args.unembedding.cols, args.normed_q8.row(o));
    if (args.packed) normed_q8[o] = args.normed_q8.row(o);
    if (const DenseUpdate* update = update_of(args, o)) multiply_a(*update, normed[o], product(o));
  });
  const ptrdiff_t vocab = args.unembedding.rows;
  const double work = 1.0 * args.unembedding.rows * args.unembedding.cols * static_cast<double>(num_outputs);
  const ptrdiff_t panel = args.machine.tuning.panel_rows;
  for_each(args.machine, (vocab + panel - 1) / panel, work, [&](ptrdiff_t item, int) {
    const ptrdiff_t first_row = item * panel;
    View<float, 2> y = args.logits;
    y.data += first_row;
    y.shape = {num_outputs, std::min(panel, vocab - first_row)};
    if (args.packed)
      dot(args.machine.kernels, StripPanelArgs{*args.packed, 0, first_row, normed_q8, y});
    else
      dot(args.machine.kernels, PanelArgs{args.unembedding, first_row, normed, y});
    for (ptrdiff_t o = 0; o < num_outputs; ++o)
      if (const DenseUpdate* update = update_of(args, o))
        add_b(*update, product(o), first_row, {y.row(o), static_cast<size_t>(y.shape[1])});
  });
}

}  // namespace nibble::cpu
