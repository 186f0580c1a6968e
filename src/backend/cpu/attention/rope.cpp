#include "backend/cpu/attention/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nibble::cpu {
namespace {

// The pair, as a real number, that turns `beta` times over the original context.
double corner(const RopeConfig& config, int head_dim, double beta) {
  return head_dim / 2.0 * std::log(config.original_context / (2 * std::numbers::pi * beta)) /
         std::log(config.theta);
}

}  // namespace

Rope make_rope(const RopeConfig& config, int head_dim) {
  double low = corner(config, head_dim, config.beta_fast), high = corner(config, head_dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  const double width = std::max(high - low, 0.001);  // no width would divide by 0

  Rope rope{.frequencies = {}, .concentration = static_cast<float>(0.1 * std::log(config.factor) + 1)};
  for (int i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(config.theta, -2.0 * i / head_dim);
    const double ramp = std::clamp((i - low) / width, 0.0, 1.0);
    rope.frequencies.push_back(static_cast<float>((1 - ramp) * frequency + ramp * frequency / config.factor));
  }
  return rope;
}

void rotations(const RotationsArgs& args) {
  for (ptrdiff_t t = 0; t < std::ssize(args.rows); ++t) {
    const auto position = static_cast<float>(args.rows[t].position);
    for (ptrdiff_t i = 0; i < args.cosines.shape[1]; ++i) {
      const float angle = position * args.rope.frequencies[i];
      args.cosines(t, i) = args.rope.concentration * std::cos(angle);
      args.sines(t, i) = args.rope.concentration * std::sin(angle);
    }
  }
}

void rotate(std::span<float> x, const float* cosines, const float* sines) {
  const size_t half = x.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const float first = x[i], second = x[i + half];
    x[i] = first * cosines[i] - second * sines[i];
    x[i + half] = second * cosines[i] + first * sines[i];
  }
}

}  // namespace nibble::cpu
