#include "backend/cpu/dense/rms_norm.h"

#include <cmath>

#include "backend/cpu/split_order.h"

namespace nibble::cpu {

void rms_norm(const float* x, const Vector& g, float eps, float* y) {
  constexpr int kSums{16};  // element i is added to sum i % 16, so that compilers can vectorise the loop
  float sums[kSums]{};
  int i = 0;
  for (; i + kSums <= g.count; i += kSums)
    for (int s = 0; s < kSums; ++s) sums[s] += x[i + s] * x[i + s];
  for (int s = 0; i < g.count; ++i, ++s) sums[s] += x[i] * x[i];
  float sum = 0;
  for (const float part : sums) sum += part;

  const float factor = 1 / std::sqrt(sum / static_cast<float>(g.count) + eps);
  for (int j = 0; j < g.count; ++j) y[split_index(j)] = x[j] * factor * g[j];
}

}  // namespace nibble::cpu
