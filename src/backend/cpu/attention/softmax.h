// Online softmax: sums of weights and of weighted values over scores that arrive page by page, relative to
// the largest score so far. Partial softmaxes over different positions can be merged.
#pragma once

#include <algorithm>
#include <limits>

#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/floats.h"
#include "model/batch.h"

namespace nibble::cpu {

inline constexpr int kMaxHeads{8};  // maximum number of query heads that share one pass over the pages

struct Softmax {
  float max[kMaxHeads], sum[kMaxHeads];
  float out[kMaxHeads][kMaxHeadDim];  // the weighted sum of values, in split order

  // Starts the softmax of a head with the head's sink, a score without a value. If `sink` is null, starts the
  // softmax without any score.
  void start(int head, const float* sink, ptrdiff_t width) {
    max[head] = sink ? *sink : std::numeric_limits<float>::lowest();
    sum[head] = sink ? 1 : 0;
    std::fill_n(out[head], width, 0.0f);
  }

  // Adds the first `count` scores of a page: replaces them by weights relative to the maximum, and the page's
  // other scores by 0.
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

  // Merges another partial softmax into this one. If this one is empty, the result is a copy of the other
  // one, except for signs of zeros.
  void add(int head, float other_max, float other_sum, const float* other_out, ptrdiff_t width) {
    const float larger = std::max(max[head], other_max);
    const float ours = fast_exp(max[head] - larger), theirs = fast_exp(other_max - larger);
    sum[head] = sum[head] * ours + other_sum * theirs;
    for (ptrdiff_t d = 0; d < width; ++d) out[head][d] = out[head][d] * ours + other_out[d] * theirs;
    max[head] = larger;
  }
};

}  // namespace nibble::cpu
