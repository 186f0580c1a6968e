#include "backend/cpu/dense/qkv.h"

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/dense/dot.h"
#include "backend/cpu/dense/rms_norm.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/q8.h"
#include "backend/cpu/split_order.h"

namespace nibble::cpu {
namespace {

constexpr UpdateOfLayer kProjections[kMatricesAtOnce]{&LayerUpdates::q, &LayerUpdates::k, &LayerUpdates::v};

// Computes one head for all rows. `item`: index of the head, counting q heads, then k heads, then v heads.
void project_head(const QkvArgs& args, ptrdiff_t item) {
  const LayerWeights& layer = args.layer;
  const ptrdiff_t head_dim = args.kv.head_dim, num_heads = args.q.shape[1],
                  num_kv_heads = args.kv.num_kv_heads;
  const bool is_q = item < num_heads, is_k = !is_q && item < num_heads + num_kv_heads;
  const Matrix& weight = is_q ? layer.q : is_k ? layer.k : layer.v;
  const Vector& bias = is_q ? layer.q_bias : is_k ? layer.k_bias : layer.v_bias;
  const ptrdiff_t head = is_q ? item : (item - num_heads) % num_kv_heads;
  const ptrdiff_t which = is_q ? 0 : is_k ? 1 : 2;

  float storage[kTokenBlock * kMaxHeadDim];
  const float* x[kTokenBlock];
  const Q8Block* x_q8[kTokenBlock];
  const ptrdiff_t num_rows = std::ssize(args.rows);
  for (ptrdiff_t first = 0; first < num_rows && !args.machine.is_stopped(); first += kTokenBlock) {
    const ptrdiff_t count = std::min<ptrdiff_t>(kTokenBlock, num_rows - first);
    const View<float, 2> panel(storage, {count, head_dim});
    if (args.packed) {
      for (ptrdiff_t t = 0; t < count; ++t) x_q8[t] = args.normed_q8.row(first + t);
      dot(args.machine.kernels, StripPanelArgs{*args.packed, 0, item * head_dim, x_q8, panel});
    } else {
      for (ptrdiff_t t = 0; t < count; ++t) x[t] = args.normed.row(first + t);
      dot(args.machine.kernels, PanelArgs{weight, head * head_dim, x, panel});
    }
    for (ptrdiff_t t = 0; t < count; ++t) {
      float* y = panel.row(t);
      for (ptrdiff_t d = 0; d < head_dim; ++d) y[d] += bias[head * head_dim + d];
      args.adapters.add(first + t, kProjections[which], head * head_dim, {y, static_cast<size_t>(head_dim)},
                        which);
      if (is_q || is_k)
        rotate({y, static_cast<size_t>(head_dim)}, args.cosines.row(first + t), args.sines.row(first + t));
      if (is_q) {
        for (ptrdiff_t d = 0; d < head_dim; ++d) args.q(first + t, head, split_index(d)) = y[d];
        continue;
      }
      const BatchRow& row = args.rows[first + t];
      const PageTableView& pages = row.pages(args.kv.kind);
      const int kv_head = static_cast<int>(head);
      const int slot = row.slot(row.position);
      std::byte* page = is_k ? args.kv.keys(pages, slot, kv_head) : args.kv.values(pages, slot, kv_head);
      args.kv.store(y, page, slot);
    }
  }
}

}  // namespace

void qkv(const QkvArgs& args) {
  const ptrdiff_t num_rows = std::ssize(args.rows), hidden = args.x.shape[1];
  const ptrdiff_t num_items = args.q.shape[1] + 2 * args.kv.num_kv_heads;
  for_each(args.machine, num_rows, static_cast<double>(num_rows * hidden), [&](ptrdiff_t t, int) {
    rms_norm(args.x.row(t), args.layer.attention_norm, args.rms_eps, args.normed.row(t));
    if (args.packed) to_q8(args.normed.row(t), hidden, args.normed_q8.row(t));
    for (ptrdiff_t which = 0; which < kMatricesAtOnce; ++which)
      args.adapters.multiply(t, kProjections[which], args.normed.row(t), which);
  });
  for_each(args.machine, num_items, static_cast<double>(num_rows * num_items * args.kv.head_dim * hidden),
           [&](ptrdiff_t item, int) { project_head(args, item); });
}

}  // namespace nibble::cpu
