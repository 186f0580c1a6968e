// Finds the nearest number of a small format by comparing distances. Conversions of core/ must agree with it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/numbers/random.h"

namespace nibble {

// `magnitudes`: the non-negative finite values in ascending order; the index of a value is its code. Ties go
// to the even code. Values beyond the largest return the largest.
inline size_t nearest_code(const std::vector<float>& magnitudes, float x) {
  const double wanted = std::abs(static_cast<double>(x));
  const auto above =
      std::ranges::lower_bound(magnitudes, wanted, {}, [](float v) { return static_cast<double>(v); });
  if (above == magnitudes.end()) return magnitudes.size() - 1;
  const auto code = static_cast<size_t>(above - magnitudes.begin());
  if (code == 0) return 0;
  const double distance_up = *above - wanted, distance_down = wanted - magnitudes[code - 1];
  if (distance_up == distance_down) return code % 2 == 0 ? code : code - 1;
  return distance_up < distance_down ? code : code - 1;
}

// Returns floats whose rounding could go wrong: every value of the format, every midpoint of two adjacent
// values, and the float32 neighbours of these. Also every 4099th bit pattern of float32 (without NaN), and
// random numbers up to 1.25 times the largest value.
inline std::vector<float> rounding_cases(const std::vector<float>& magnitudes) {
  constexpr float kInfinity{std::numeric_limits<float>::infinity()};
  std::vector<float> cases;
  const auto add_around = [&](float x) {
    for (const float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, kInfinity)})
      cases.insert(cases.end(), {y, -y});
  };
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    add_around(magnitudes[i]);
    if (i > 0) add_around(magnitudes[i - 1] + (magnitudes[i] - magnitudes[i - 1]) / 2);
  }
  add_around(magnitudes.back() + (magnitudes.back() - magnitudes[magnitudes.size() - 2]) / 2);
  add_around(kInfinity);
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099)
    if (const float x = std::bit_cast<float>(static_cast<uint32_t>(bits)); !std::isnan(x)) cases.push_back(x);
  for (uint64_t i = 0; i < 100'000; ++i)
    cases.push_back(static_cast<float>(2 * random_unit(1, i) - 1) * 1.25f * magnitudes.back());
  return cases;
}

}  // namespace nibble
