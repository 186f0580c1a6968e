// Samples a token from a row of logits on the host, for backends without a sampler of their own.
//
//   l[v]            the model's logit of token v; NaN counts as -infinity, +infinity as the largest float
//   0. mask         l[v] = -infinity if v must not be chosen: no bias brings it back, no filter counts it
//   1. bias         l[v] += bias[v]                              OpenAI's logit_bias
//   2. penalties    l[v] = l[v] > 0 ? l[v] / r : l[v] * r        repetition: if v is in prompt or output
//                                                                (Keskar et al. 2019; Hugging Face, vLLM)
//                   l[v] -= f * count[v] + a * (count[v] > 0)    frequency f and presence a (OpenAI): count
//                                                                over the output
//   3. temperature  w[v] = exp((l[v] - max l) / t);  t = 0: take the token with the largest l and stop
//   4. min_p        keep w[v] >= min_p * max w                   (Nguyen et al. 2024)
//   5. top_k        keep the k likeliest
//   6. top_p        of the tokens kept so far, with weights that sum to s: keep the smallest set of likeliest
//                   ones whose weights sum to >= top_p * s       (Holtzman et al. 2019)
//   7. draw         u in [0, 1) from (seed, position): the first kept v, ids ascending, with
//                   sum_{v' <= v} w[v'] > u * sum w
//
// The order is vLLM's. Of equally likely tokens the lower id counts as likelier, so top_k keeps exactly k.
// Log-probabilities are l - log sum exp(l) of the model's own logits, before step 0.
#pragma once

#include <span>

#include "model/batch.h"

namespace nibble {

// Samples the token at `position`. Seed and position determine the draw. Overwrites `logits` [V]. Token ids
// in `row` must be below V. Returns token -1 if no logit is above -infinity.
SampledToken sample(std::span<float> logits, const OutputRow& row, int position);

}  // namespace nibble
