// Probabilities from a row of logits, in double, so that means over 10^5 tokens are right to the last figure shown.
#pragma once

#include <span>

#include "core/token.h"

namespace nibble::cli {

// log sum_v exp(l[v]): a token's log-probability is its logit less this.
double log_sum_exp(std::span<const float> logits);

// The likeliest token. Among equal logits the lowest id wins, as in sampling at temperature 0.
TokenId likeliest(std::span<const float> logits);

// KL(p || q) in nats. Both are rows of logits over one vocabulary.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace nibble::cli
