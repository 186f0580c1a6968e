#include "reference/qkv.h"

#include <algorithm>
#include <vector>

#include "reference/array.h"
#include "reference/linear.h"
#include "reference/rms_norm.h"

namespace nibble::reference {
namespace {

View<float, 2> merge_heads(const View<float, 3>& x) {
  return {x.data, {x.shape[0], x.shape[1] * x.shape[2]}};
}

void append(View<const float, 3> k, View<const float, 3> v, std::span<const BatchRow> rows, const LayerKv& kv,
            Format format) {
  const auto store = [&](const float* from, float* to) {
    std::transform(from, from + k.shape[2], to, [format](float value) { return round_to(format, value); });
  };
  for (size_t t = 0; t < rows.size(); ++t)
    for (int head = 0; head < k.shape[1]; ++head) {
      store(k.row(t, head), kv.key(rows[t], head, rows[t].position));
      store(v.row(t, head), kv.value(rows[t], head, rows[t].position));
    }
}

}  // namespace

void qkv(const QkvArgs& args) {
  const LayerWeights& layer = args.layer;
  const ptrdiff_t num_rows = args.x.shape[0], num_kv_heads = args.kv.keys.shape[1],
                  head_dim = args.q.shape[2];
  const Array<float, 2> normed({num_rows, args.x.shape[1]});
  const Array<float, 3> k({num_rows, num_kv_heads, head_dim}), v({num_rows, num_kv_heads, head_dim});
  rms_norm({args.x, layer.attention_norm, args.rms_eps, normed});
  const LayerAdapters& of = args.adapters;
  linear({normed, layer.q, layer.q_bias, merge_heads(args.q), args.pool, args.rounding,
          of.updates(&LayerUpdates::q)});
  linear({normed, layer.k, layer.k_bias, merge_heads(k), args.pool, args.rounding,
          of.updates(&LayerUpdates::k)});
  linear({normed, layer.v, layer.v_bias, merge_heads(v), args.pool, args.rounding,
          of.updates(&LayerUpdates::v)});

  std::vector<int> positions;
  for (const BatchRow& row : args.rows) positions.push_back(row.position);
  rotate({args.q, positions, args.rope});
  rotate({k, positions, args.rope});
  append(k, v, args.rows, args.kv, args.rounding.kv);
}

}  // namespace nibble::reference
