#include "backend/cuda/verify/residual.h"

#include <cmath>

#include "backend/cuda/verify/host_threads.h"

namespace nibble::cuda::verify {
namespace {

std::vector<float> stream_of(const Case& c, int num_tokens) {
  const size_t hidden = c.shape.hidden;
  std::vector<float> x = random_floats(c.values, c.seed, num_tokens * hidden);
  if (c.values == Values::kTypical && num_tokens > 1)
    for (size_t i = x.size() - hidden; i < x.size(); ++i) x[i] *= 0x1p50f;
  return x;
}

}  // namespace

TestResidual::TestResidual(const Case& c, int num_tokens, const Parts& parts)
    : hidden_(c.shape.hidden),
      parts_(parts),
      x_(stream_of(c, num_tokens)),
      rest_(random_floats(c.values, c.seed + 1, parts.has_rest ? x_.size() : 0)),
      experts_(random_floats(c.values, c.seed + 2, x_.size() * parts.num_experts)),
      device_x_(x_),
      device_rest_(rest_),
      device_experts_(experts_) {}

ResidualInput TestResidual::input() const {
  return {.x = device_x_.data(),
          .x_rest = parts_.has_rest ? device_rest_.data() : nullptr,
          .experts = parts_.num_experts ? device_experts_.data() : nullptr,
          .num_experts = parts_.num_experts,
          .hidden = hidden_};
}

float TestResidual::at(int token, int i) const {
  float sum = x_[place(token, i)];
  if (parts_.has_rest) sum += rest_[place(token, i)];
  for (int k = 0; k < parts_.num_experts; ++k) sum += experts_[place(token * parts_.num_experts + k, i)];
  return sum;
}

TestNorm::TestNorm(const Case& c, const TestResidual& residual)
    : residual_(residual),
      weights_(
          random_floats(c.values == Values::kZero || c.values == Values::kMixed ? c.values : Values::kTypical,
                        c.seed + 3, c.shape.hidden)),
      device_weights_(weights_) {}

// Computes x * weight / sqrt(mean(x^2) + eps). A kernel's mean is a sum of positive numbers, each rounded at
// most 36 times, by up to 2^-24: a product, 7 additions in a thread, 5 in a warp, 16 over the warps, the
// division, eps, and a reserve of 5. The root halves this error. rsqrtf adds 2 ulp (CUDA C++ Programming
// Guide), which is 4 roundings; two products add 2. Results below the smallest normal float32 may be off by
// 2^-148.
std::vector<Rounded> TestNorm::numbers(const std::vector<int>& tokens) const {
  constexpr double kRelative{(36 / 2 + 4 + 2) * 0x1p-24};
  const int hidden = static_cast<int>(weights_.size());
  std::vector<Rounded> numbers(tokens.size() * weights_.size());
  host_threads().for_each(static_cast<ptrdiff_t>(tokens.size()), [&](ptrdiff_t row, int) {
    double squares = 0;
    for (int i = 0; i < hidden; ++i) squares += std::pow(double{residual_.at(tokens[row], i)}, 2);
    const double factor = 1 / std::sqrt(squares / hidden + double{kEps});
    for (int i = 0; i < hidden; ++i) {
      const double number = double{residual_.at(tokens[row], i)} * factor * double{weights_[i]};
      numbers[row * weights_.size() + i] = round_bf16(number, kRelative * std::abs(number) + 0x1p-148);
    }
  });
  return numbers;
}

Activations TestNorm::normed(const std::vector<int>& tokens) const {
  const std::vector<Rounded> from = numbers(tokens);
  Activations normed(static_cast<int>(tokens.size()), static_cast<int>(weights_.size()));
  for (size_t i = 0; i < from.size(); ++i) {
    normed.values[i] = from[i].value;
    normed.slack[i] = from[i].slack;
  }
  return normed;
}

}  // namespace nibble::cuda::verify
