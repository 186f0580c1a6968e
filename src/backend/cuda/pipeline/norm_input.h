#pragma once

namespace nibble::cuda {

// Residual stream: x, to which readers add first x_rest (a product's second part), then the experts' outputs.
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
