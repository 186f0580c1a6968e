// The input of a norm: the residual stream and the weights of the norm.
#pragma once

namespace nibble::cuda {

// The residual stream as its producers leave it: x, and terms that the reader must add to it, in this order:
// the second partial sum of a matrix product, or the outputs of the chosen experts.
struct ResidualInput {
  const float* x{nullptr};        // [T, H]
  const float* x_rest{nullptr};   // [T, H] or null
  const float* experts{nullptr};  // [T, K, H] or null
  int num_experts{0};             // K
  int hidden{0};                  // H
};
struct NormInput {
  ResidualInput residual;
  const float* weights;  // [H]
  float eps;
};

}  // namespace nibble::cuda
