// Mixture of experts, with e = experts[t,k]:
//   x[t] += sum_k weights[t,k] (W2[e] swiglu(W1[e] h[t] + b1[e]) + b2[e])
// Runs each expert for all its tokens, to decode each row of weights once. Adds the terms over k in the
// router's order: the result does not depend on the other tokens in the batch.
#pragma once

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct ExpertsArgs {
  View<const float, 2> normed;   // h [T, H]
  View<const int, 2> experts;    // [T, K], below E
  View<const float, 2> weights;  // [T, K]
  const LayerWeights& layer;     // gate_up (W1 [E, 2I, H], b1), down (W2 [E, H, I], b2)
  int num_experts;               // E
  float swiglu_limit;
  View<float, 2> x;  // [T, H]
  ThreadPool* pool{};
  Rounding rounding{};  // of h and of the output of swiglu
};
void experts(const ExpertsArgs& args);

}  // namespace nibble::reference
