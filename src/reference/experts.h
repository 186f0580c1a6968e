// Mixture of experts, with e = experts[t,k]:
//   x[t] += sum_k weights[t,k] (W2[e] swiglu(W1[e] h[t] + b1[e]) + b2[e])
// Runs each expert for all its tokens at once, so that each row of weights is decoded only once. The terms
// over k are added in the router's order, so a token's result does not depend on the other tokens in the
// batch.
#pragma once

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

struct ExpertsArgs {
  View<const float, 2> normed;   // [T, H]: h
  View<const int, 2> experts;    // [T, K]: indices of experts, 0 to E - 1
  View<const float, 2> weights;  // [T, K]: the experts' weights in the sum
  const LayerWeights& layer;     // its gate_up (W1 [E, 2I, H], b1) and down (W2 [E, H, I], b2) are read
  int num_experts;               // E
  float swiglu_limit;
  View<float, 2> x;  // [T, H]: the residual stream
  ThreadPool* pool{};
  Rounding rounding{};  // applied to h and to the output of swiglu
};
void experts(const ExpertsArgs& args);

}  // namespace nibble::reference
