#include "backend/cpu/dense/project.h"

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/dense/dot.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/q8.h"

namespace nibble::cpu {
namespace {

void project_panel(const ProjectArgs& args, ptrdiff_t first_row) {
  const ptrdiff_t num_tokens = args.x.shape[0];
  const ptrdiff_t num_rows =
      std::min<ptrdiff_t>(args.machine.panel_rows(num_tokens), args.weight.rows - first_row);
  float storage[kTokenBlock * kMaxPanelRows];
  const float* attended[kTokenBlock];
  const Q8Block* attended_q8[kTokenBlock];
  for (ptrdiff_t first = 0; first < num_tokens && !args.machine.is_stopped(); first += kTokenBlock) {
    const ptrdiff_t count = std::min<ptrdiff_t>(kTokenBlock, num_tokens - first);
    const View<float, 2> panel(storage, {count, num_rows});
    if (args.packed) {
      for (ptrdiff_t t = 0; t < count; ++t) attended_q8[t] = args.attended_q8.row(first + t);
      dot(args.machine.kernels, StripPanelArgs{*args.packed, 0, first_row, attended_q8, panel});
    } else {
      for (ptrdiff_t t = 0; t < count; ++t) attended[t] = args.attended.row(first + t);
      dot(args.machine.kernels, PanelArgs{args.weight, first_row, attended, panel});
    }
    for (ptrdiff_t t = 0; t < count; ++t) {
      for (ptrdiff_t r = 0; r < num_rows; ++r) panel(t, r) += args.bias[first_row + r];
      args.adapters.add(first + t, &LayerUpdates::o, first_row,
                        {panel.row(t), static_cast<size_t>(num_rows)});
      for (ptrdiff_t r = 0; r < num_rows; ++r) args.x(first + t, first_row + r) += panel(t, r);
    }
  }
}

}  // namespace

void project(const ProjectArgs& args) {
  const ptrdiff_t num_tokens = args.x.shape[0], width = args.weight.cols;
  const ptrdiff_t panel = args.machine.panel_rows(num_tokens);
  const ptrdiff_t num_panels = (args.weight.rows + panel - 1) / panel;
  const double work = 1.0 * args.weight.rows * args.weight.cols * static_cast<double>(num_tokens);
  if (args.packed || args.adapters.step.has_any())
    for_each(args.machine, num_tokens, static_cast<double>(num_tokens * width), [&](ptrdiff_t t, int) {
      if (args.packed) to_q8(args.attended.row(t), width, args.attended_q8.row(t));
      args.adapters.multiply(t, &LayerUpdates::o, args.attended.row(t));
    });
  for_each(args.machine, num_panels, work, [&](ptrdiff_t item, int) { project_panel(args, item * panel); });
}

}  // namespace nibble::cpu
