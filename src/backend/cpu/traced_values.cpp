#include "backend/cpu/traced_values.h"

#include "backend/cpu/split_order.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"

namespace nibble::cpu {
namespace {

void append_split(const float* split, ptrdiff_t count, std::vector<float>& values) {
  for (ptrdiff_t i = 0; i < count; ++i) values.push_back(split[split_index(i)]);
}

// Appends the D elements of a key or value, which is at `position` of a page, to `values`.
void append_cached(const LayerKv& kv, const std::byte* page, int position, std::vector<float>& values) {
  const std::byte* row = page + position % kPageTokens * kv.row_bytes();
  for (int d = 0; d < kv.head_dim; ++d)
    values.push_back(kv.format == Format::kE4m3 ? to_float(reinterpret_cast<const E4m3*>(row)[d])
                                                : to_float(reinterpret_cast<const Bf16*>(row)[d]));
}

void append_qkv(const TracedStep& step, const LayerKv& kv, ptrdiff_t t, std::vector<float>& values) {
  const BatchRow& row = step.rows[static_cast<size_t>(t)];
  for (int head = 0; head < step.config.num_heads; ++head)
    append_split(&step.activations.q(t, head, 0), kv.head_dim, values);
  const PageTableView& pages = row.pages(kv.kind);
  const int slot = row.slot(row.position);
  for (int head = 0; head < kv.num_kv_heads; ++head)
    append_cached(kv, kv.keys(pages, slot, head), slot, values);
  for (int head = 0; head < kv.num_kv_heads; ++head)
    append_cached(kv, kv.values(pages, slot, head), slot, values);
}

}  // namespace

std::vector<float> traced_values(const TracedStep& step, int layer, Operation operation) {
  const Activations& a = step.activations;
  const Config& config = step.config;
  std::vector<float> values;
  for (ptrdiff_t t = 0; t < std::ssize(step.rows); ++t) {
    if (operation == Operation::kQkv) {
      append_qkv(step, step.kv.layer(static_cast<size_t>(layer)), t, values);
    } else if (operation == Operation::kAttend) {
      append_split(a.attended.row(t), ptrdiff_t{1} * config.num_heads * config.head_dim, values);
    } else if (operation == Operation::kRoute) {
      const size_t first = values.size();
      values.resize(first + static_cast<size_t>(config.num_experts));
      for (int k = 0; k < config.experts_per_token; ++k)
        values[first + a.chosen(t, k)] = a.chosen_weights(t, k);
    } else {
      values.insert(values.end(), a.x.row(t), a.x.row(t) + config.hidden);
    }
  }
  return values;
}

}  // namespace nibble::cpu
