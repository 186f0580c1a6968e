#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nibble {
namespace {

// Returns the index (a real number) of the pair of elements that makes `beta` turns over the original
// context.
double corner(const RopeConfig& config, int head_dim, double beta) {
  return head_dim / 2.0 * std::log(config.original_context / (2 * std::numbers::pi * beta)) /
         std::log(config.theta);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& config, int head_dim) {
  double low = corner(config, head_dim, config.beta_fast), high = corner(config, head_dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  const double width = std::max(high - low, 0.001);  // avoids a division by 0

  RopeFrequencies rope{.frequencies = {},
                       .concentration = static_cast<float>(0.1 * std::log(config.factor) + 1)};
  for (int i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(config.theta, -2.0 * i / head_dim);
    const double ramp = std::clamp((i - low) / width, 0.0, 1.0);
    rope.frequencies.push_back(static_cast<float>((1 - ramp) * frequency + ramp * frequency / config.factor));
  }
  return rope;
}

}  // namespace nibble
