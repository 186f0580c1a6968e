// What a row of logits says, in double: means over 10^5 tokens are to be right to the last figure shown.
#pragma once

#include <span>

#include "core/token.h"

namespace nibble::cli {

// log sum_v exp(l[v]): a token's log-probability is its logit less this.
double log_sum_exp(std::span<const float> logits);

// The likeliest token; of equal ones the lower id, as sampling at temperature 0 has it.
TokenId likeliest(std::span<const float> logits);

// KL(p || q) in nats, of the distributions that two rows of one vocabulary say.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace nibble::cli
