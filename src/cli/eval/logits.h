// Probabilities from logits, computed in double: means over 10^5 tokens are exact to the last digit shown.
#pragma once

#include <span>

#include "core/tokens/token.h"

namespace nibble::cli {

// Returns `log(sum of exp(logits[v]) over v)`. A token's log-probability is its logit minus this value.
double log_sum_exp(std::span<const float> logits);

// Returns the likeliest token; of equal logits, the lowest id, as in sampling at temperature 0.
TokenId likeliest(std::span<const float> logits);

// Returns KL(p || q) in nats. `p` and `q`: logits over the same vocabulary.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace nibble::cli
