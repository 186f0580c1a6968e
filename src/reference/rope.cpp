#include "reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors/check.h"

namespace nibble::reference {
namespace {

// Returns the index of the pair of elements (rope.h) that makes `beta` turns over the original context, as a
// real number.
double corner(const RopeConfig& config, int head_dim, double beta) {
  const double turns_per_radian = config.original_context / (2 * std::numbers::pi * beta);
  return head_dim / 2.0 * std::log(turns_per_radian) / std::log(config.theta);
}

}  // namespace

RopeTable make_rope_table(const RopeConfig& config, int head_dim) {
  double low = corner(config, head_dim, config.beta_fast);
  double high = corner(config, head_dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  // A width of at least 0.001 avoids a division by 0.
  high = std::clamp(high, low + 0.001, std::max(low + 0.001, head_dim - 1.0));

  RopeTable table;
  for (int i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(config.theta, -2.0 * i / head_dim);
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    table.frequencies.push_back(
        static_cast<float>((1 - ramp) * frequency + ramp * frequency / config.factor));
  }
  table.concentration = 0.1 * std::log(config.factor) + 1;
  return table;
}

void rotate(const RotateArgs& args) {
  const ptrdiff_t num_rows = args.x.shape[0], num_heads = args.x.shape[1], half = args.x.shape[2] / 2;
  NIBBLE_CHECK(std::ssize(args.positions) == num_rows && std::ssize(args.table.frequencies) == half,
               "x [{}, N, {}], {} positions, {} frequencies", num_rows, 2 * half, args.positions.size(),
               args.table.frequencies.size());
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (ptrdiff_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(args.positions[t]) * args.table.frequencies[i];
      const double cosine = args.table.concentration * std::cos(double{angle});
      const double sine = args.table.concentration * std::sin(double{angle});
      for (ptrdiff_t head = 0; head < num_heads; ++head) {
        float& first = args.x(t, head, i);
        float& second = args.x(t, head, i + half);
        const double x1 = first, x2 = second;
        first = static_cast<float>(x1 * cosine - x2 * sine);
        second = static_cast<float>(x2 * cosine + x1 * sine);
      }
    }
}

}  // namespace nibble::reference
