#include "reference/attend.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/threads.h"
#include "reference/weight_row.h"

namespace nibble::reference {
namespace {

// Computes the softmax over the scores and the sink, in place.
void softmax_with_sink(std::span<double> scores, double sink) {
  const double max = std::max(sink, *std::ranges::max_element(scores));
  double sum = std::exp(sink - max);
  for (double& score : scores) sum += (score = std::exp(score - max));
  for (double& score : scores) score /= sum;
}

int first_seen(const BatchRow& row, const std::optional<int>& window) {
  return window ? std::max(0, row.position - *window + 1) : 0;
}

void attend_head(const AttendArgs& args, ptrdiff_t t, ptrdiff_t head) {
  const BatchRow& row = args.rows[t];
  const ptrdiff_t head_dim = args.q.shape[2];
  const int kv_head = static_cast<int>(head / (args.q.shape[1] / args.kv.keys.shape[1]));
  const int first = first_seen(row, args.window);
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));

  std::vector<double> weights;  // scores, then weights, of the positions from `first` on
  for (int j = first; j <= row.position; ++j)
    weights.push_back(dot(args.q.row(t, head), args.kv.key(row, kv_head, j), head_dim) * scale);
  softmax_with_sink(weights, args.sinks[head]);

  std::vector<double> out(head_dim);
  for (int j = first; j <= row.position; ++j)
    add_scaled(weights[j - first], args.kv.value(row, kv_head, j), out.data(), head_dim);
  for (ptrdiff_t d = 0; d < head_dim; ++d) args.attended(t, head * head_dim + d) = static_cast<float>(out[d]);
}

}  // namespace

void attend(const AttendArgs& args) {
  NIBBLE_CHECK(args.sinks.count == args.q.shape[1], "sinks [{}], q [T, {}, D]", args.sinks.count,
               args.q.shape[1]);
  ptrdiff_t num_seen = 0;  // positions attended to, summed over all rows
  for (const BatchRow& row : args.rows) num_seen += row.position + 1 - first_seen(row, args.window);
  const ptrdiff_t num_products = 2 * num_seen * args.q.shape[1] * args.q.shape[2];
  const ptrdiff_t num_heads = args.q.shape[1];
  for_each(args.pool, args.q.shape[0] * num_heads, num_products,
           [&](ptrdiff_t item, int) { attend_head(args, item / num_heads, item % num_heads); });
}

}  // namespace nibble::reference
