// From one row of logits to a token, on the host. Backends without a sampler of their own call it.
//
//   l[v]      the model's logit of token v; NaN counts as -infinity, +infinity as the largest float
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
// The order is vLLM's. Of tokens that are equally likely the lower id counts as the likelier one, so that top_k keeps
// exactly k. Log-probabilities are l - log sum exp(l) of the model's own logits, before step 1.
#pragma once

#include <span>

#include "core/token.h"
#include "model/batch.h"

namespace nibble {

// `position`: of the token to be chosen; with the seed it fixes the draw. `logits` [V] is scratch afterwards. Token ids
// in `row` are below V. Where no logit is a number above -infinity the token is -1: there is nothing to choose from.
SampledToken sample(std::span<float> logits, const OutputRow& row, int position);

}  // namespace nibble
