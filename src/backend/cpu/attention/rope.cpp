#include "backend/cpu/attention/rope.h"

#include <cmath>

namespace nibble::cpu {

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
