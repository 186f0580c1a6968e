#pragma once

namespace nibble::cuda {

// The terms of the residual stream: x + x_rest + the experts' outputs. Readers add them in this order.
struct ResidualInput {
  const float* x{nullptr};        // [T, H]: the stream, or the first part of each sum if x_rest is set
  const float* x_rest{nullptr};   // [T, H] or null: the second part of each sum (dense/args.h)
  const float* experts{nullptr};  // [T, K, H] or null: weighted outputs of the chosen experts
  int num_experts{0};             // K, experts per token
  int hidden{0};                  // H, elements per token
};
struct NormInput {
  ResidualInput residual;
  const float* weights;  // [H]: factor of each normalised element
  float eps;
};

}  // namespace nibble::cuda
