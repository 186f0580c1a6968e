#include "backend/cpu/attention/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/floats.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/split_order.h"

namespace nibble::cpu {
namespace {

constexpr int kMaxHeads{8};  // query heads that one pass over the pages serves

int first_visible(const BatchRow& row, std::optional<int> window) {
  return window ? std::max(0, row.position - *window + 1) : 0;
}

// The softmax so far of a few heads: what has been added up, relative to the largest score.
struct Softmax {
  float max[kMaxHeads], sum[kMaxHeads];
  float out[kMaxHeads][kMaxHeadDim];  // split order

  // Turns the first `count` scores, of which there is room for a page's, into weights relative to a maximum that may have grown,
  // and scales down what was added before.
  void add_scores(int head, float* scores, int count, float scale) {
    static_assert(kPageTokens % 4 == 0);
    constexpr float kNone{-std::numeric_limits<float>::infinity()};
    for (int j = count; j < kPageTokens; ++j) scores[j] = kNone;
    Floats maxima = broadcast(max[head]);
    for (int j = 0; j < kPageTokens; j += 4) {
      const Floats scaled = load(scores + j) * scale;
      store(scores + j, scaled);
      maxima = greater(scaled, maxima);
    }
    const float larger = std::max(std::max(maxima[0], maxima[1]), std::max(maxima[2], maxima[3]));
    if (larger != max[head]) {
      const float correction = fast_exp(max[head] - larger);
      sum[head] *= correction;
      for (float& element : out[head]) element *= correction;
      max[head] = larger;
    }
    for (int j = 0; j < kPageTokens; j += 4) store(scores + j, fast_exp(load(scores + j) - larger));
    for (int j = count; j < kPageTokens; ++j) scores[j] = 0;
    Floats sums{};
    for (int j = 0; j < kPageTokens; j += 4) sums += load(scores + j);
    sum[head] += (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
};

// What a page has of one head, of keys or values.
void prefetch(const std::byte* page, const LayerKv& kv) {
  for (size_t line = 0; line < kPageTokens * kv.row_bytes(); line += 64)
    __builtin_prefetch(page + line, 0, 2);
}

// Query heads [first_head, first_head + num_heads), which share a kv head.
void attend_heads(const AttendArgs& args, ptrdiff_t t, int kv_head, ptrdiff_t first_head, int num_heads) {
  const BatchRow& row = args.rows[t];
  const PageTableView& pages = row.pages(args.kv.kind);
  const Kernels& kernels = args.machine.kernels;
  const int head_dim = args.kv.head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));

  Softmax softmax;
  const float* q[kMaxHeads];
  for (int h = 0; h < num_heads; ++h) {
    q[h] = args.q.row(t, first_head + h);
    softmax.max[h] = args.sinks[first_head + h];
    softmax.sum[h] = 1;
    std::fill_n(softmax.out[h], padded(head_dim), 0.0f);
  }

  const int end = row.position + 1;
  for (int first = first_visible(row, args.window), next; first < end; first = next) {
    next = std::min(end, (first / kPageTokens + 1) * kPageTokens);
    const int count = next - first, first_in_page = first % kPageTokens;
    if (next < end) {  // pages lie anywhere: the hardware cannot tell where the next one is
      prefetch(args.kv.keys(pages, next, kv_head), args.kv);
      prefetch(args.kv.values(pages, next, kv_head), args.kv);
    }
    float scores[kMaxHeads][kPageTokens];
    kernels.dot(args.kv.format)
        ->kernel({.weights = args.kv.keys(pages, first, kv_head),
                  .scales = nullptr,
                  .row_scales = nullptr,
                  .cols = head_dim,
                  .first_row = first_in_page,
                  .num_rows = count,
                  .x = q,
                  .num_tokens = num_heads,
                  .y = scores[0],
                  .y_stride = kPageTokens});
    for (int h = 0; h < num_heads; ++h) softmax.add_scores(h, scores[h], count, scale);
    kernels.weigh(args.kv.format)
        ->kernel({.values = args.kv.values(pages, first, kv_head) + first_in_page * args.kv.row_bytes(),
                  .num_positions = count,
                  .head_dim = head_dim,
                  .weights = scores[0],
                  .weights_stride = kPageTokens,
                  .num_heads = num_heads,
                  .out = softmax.out[0],
                  .out_stride = kMaxHeadDim});
  }

  for (int h = 0; h < num_heads; ++h)
    for (ptrdiff_t d = 0; d < head_dim; ++d)
      args.attended(t, split_index((first_head + h) * head_dim + d)) =
          softmax.out[h][split_index(d)] / softmax.sum[h];
}

}  // namespace

void attend(const AttendArgs& args) {
  const ptrdiff_t num_heads = args.q.shape[1], num_kv_heads = args.kv.num_kv_heads;
  const ptrdiff_t heads_per_kv_head = num_heads / num_kv_heads;
  double work = 0;
  for (const BatchRow& row : args.rows) work += row.position + 1 - first_visible(row, args.window);
  work *= 2.0 * static_cast<double>(num_heads * args.kv.head_dim);

  for_each(args.machine.pool, std::ssize(args.rows) * num_kv_heads, work, [&](ptrdiff_t item, int) {
    const ptrdiff_t kv_head = item % num_kv_heads;
    for (ptrdiff_t head = 0; head < heads_per_kv_head; head += kMaxHeads)
      attend_heads(args, item / num_kv_heads, static_cast<int>(kv_head), kv_head * heads_per_kv_head + head,
                   static_cast<int>(std::min<ptrdiff_t>(kMaxHeads, heads_per_kv_head - head)));
  });
}

}  // namespace nibble::cpu
