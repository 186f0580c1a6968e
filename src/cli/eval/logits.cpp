#include "cli/eval/logits.h"

#include <algorithm>
#include <cmath>

namespace nibble::cli {

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

TokenId likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

double kl_divergence(std::span<const float> p, std::span<const float> q) {
  const double log_sum_p = log_sum_exp(p), log_sum_q = log_sum_exp(q);
  double sum = 0;
  for (size_t v = 0; v < p.size(); ++v) {
    const double log_p = p[v] - log_sum_p;
    sum += std::exp(log_p) * (log_p - (q[v] - log_sum_q));
  }
  return sum;
}

}  // namespace nibble::cli
