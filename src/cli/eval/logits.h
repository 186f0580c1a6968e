// Probabilities of logits, in double: means over 10^5 tokens are exact to the last digit shown.
#pragma once

#include <span>

#include "core/token.h"

namespace nibble::cli {

// log sum_v exp(l[v]); a token's log-probability is its logit minus this.
double log_sum_exp(std::span<const float> logits);

// Returns the likeliest token. Of equal logits the lowest id wins, as in sampling at temperature 0.
TokenId likeliest(std::span<const float> logits);

// KL(p || q) in nats of two rows of logits over the same vocabulary.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace nibble::cli
