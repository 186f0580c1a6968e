// Samples a token from one row of logits, on the host, for backends without a sampler of their own.
//
//   l[v]      the model's logit of token v; NaN counts as -infinity, +infinity as the largest float
//   0. mask          l[v] = -infinity where v may not be chosen: no bias brings it back, and no filter counts it
//   1. bias          l[v] += bias[v]                                                       OpenAI's logit_bias
//   2. penalties     l[v] = l[v] > 0 ? l[v] / r : l[v] * r    where v is in prompt or output   repetition (Keskar et
//                    al. 2019; Hugging Face, vLLM)
//                    l[v] -= f * count[v] + a * (count[v] > 0)   count over the output       frequency f, presence a
//                    (OpenAI)
//   3. temperature   w[v] = exp((l[v] - max l) / t);   t = 0: the token of the largest l, and no more steps
//   4. min_p         keep w[v] >= min_p * max w                                            (Nguyen et al. 2024)
//   5. top_k         keep the k likeliest
//   6. top_p         of what is left keep the likeliest, as few as sum to top_p of it       (Holtzman et al. 2019)
//   7. draw          u in [0, 1) of (seed, position): the first kept v, ids ascending, with  sum_{v' <= v} w > u sum w
//
// The order is vLLM's. Among equally likely tokens the lower id counts as likelier, so that top_k keeps exactly k.
// Log-probabilities are l - log sum exp(l) of the model's own logits, before step 0.
#pragma once

#include <span>

#include "core/token.h"
#include "model/batch.h"

namespace nibble {

// `position` is that of the token to be sampled; with the seed it fixes the draw. `logits` [V] is overwritten. Token
// ids in `row` must be below V. The token is -1 if no logit is a number above -infinity.
SampledToken sample(std::span<float> logits, const OutputRow& row, int position);

}  // namespace nibble
