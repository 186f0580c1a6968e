#pragma once

namespace nibble::cuda {

// Residual stream: x, to which readers add first x_rest (a product's second part), then the experts' outputs.
struct ResidualInput {
  const float* x{nullptr};        // [T, H]: the stream without the terms below
  const float* x_rest{nullptr};   // [T, H] or null: second part of each sum in x
  const float* experts{nullptr};  // [T, K, H] or null: weighted outputs of the chosen experts
  int num_experts{0};             // K, experts per token
  int hidden{0};                  // H, elements per token
};
struct NormInput {
  ResidualInput residual;
  const float* weights;  // [H]: factors of the normalised elements
  float eps;
};

}  // namespace nibble::cuda
