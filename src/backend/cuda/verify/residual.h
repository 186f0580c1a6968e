// Residual streams as test inputs, stored as sums of several terms (dense/args.h), and their norms.
#pragma once

#include <vector>

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"
#include "backend/cuda/verify/shapes.h"

namespace nibble::cuda::verify {

// If a case has typical values and several tokens, the last token's row of x is multiplied by 2^50.
class TestResidual {
 public:
  // Terms that kernels add to x: the second part of a matrix product (if has_rest is true), and the outputs
  // of num_experts experts per token.
  struct Parts {
    bool has_rest{false};
    int num_experts{0};
  };
  TestResidual(const Case& c, int num_tokens, const Parts& parts);

  ResidualInput input() const;
  // Returns element i of a token: the sum of all terms. The terms are added in float32 and in the order of
  // the kernels, so a kernel's sum has the same bits.
  float at(int token, int i) const;

 private:
  size_t place(int token, int i) const { return size_t{1} * token * hidden_ + i; }

  int hidden_;
  Parts parts_;
  std::vector<float> x_, rest_, experts_;
  DeviceArray<float> device_x_, device_rest_, device_experts_;
};

class TestNorm {
 public:
  static constexpr float kEps{1e-5f};

  TestNorm(const Case& c, const TestResidual& residual);
  const TestResidual& residual() const { return residual_; }
  NormInput input() const { return {residual_.input(), device_weights_.data(), kEps}; }
  std::vector<Rounded> numbers(const std::vector<int>& tokens) const;  // returns expected norms [tokens, H]
  Activations normed(const std::vector<int>& tokens) const;

 private:
  const TestResidual& residual_;
  std::vector<float> weights_;
  DeviceArray<float> device_weights_;
};

}  // namespace nibble::cuda::verify
