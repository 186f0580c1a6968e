// Probabilities of a row of logits. Computed in double, so that means over 10^5 tokens are
// exact to the last digit shown.
#pragma once

#include <span>

#include "core/token.h"

namespace nibble::cli {

// Returns log sum_v exp(l[v]). The log-probability of a token is its logit minus this.
double log_sum_exp(std::span<const float> logits);

// Returns the likeliest token. Of equal logits the one with the lowest id wins, as
// in sampling at temperature 0.
TokenId likeliest(std::span<const float> logits);

// Returns KL(p || q) in nats. Both are rows of logits over the same vocabulary.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace nibble::cli
