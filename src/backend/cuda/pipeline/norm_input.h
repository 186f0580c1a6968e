#pragma once

namespace nibble::cuda {

// The residual stream: x, and terms that readers add in this order: a second partial sum, or expert outputs.
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
