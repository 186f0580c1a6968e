// E8M0, the scale of the OCP Microscaling specification: 8 exponent bits (bias 127) and nothing else. Code c
// is 2^(c - 127), and 255 is NaN. No zero, no infinity.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace nibble {

struct E8m0 {
  uint8_t bits;
  friend bool operator==(E8m0, E8m0) = default;
};

constexpr E8m0 kE8m0Nan{0xFF};

inline float to_float(E8m0 x) {  // exact, also for 2^-127, which is a subnormal float32
  if (x == kE8m0Nan) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(x.bits == 0 ? 0x00400000u : uint32_t{x.bits} << 23);
}

// Round |x| down or up to a power of two. Saturate at 2^-127 (for zero too) and 2^127 (for infinity too). A
// NaN stays a NaN.
inline E8m0 to_e8m0_down(float x) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return kE8m0Nan;
  return E8m0{static_cast<uint8_t>(std::min(magnitude >> 23, 254u))};
}

inline E8m0 to_e8m0_up(float x) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return kE8m0Nan;
  // Values up to 2^-127 are subnormal in float32 and get code 0.
  if (magnitude <= 0x00400000u) return E8m0{0};
  return E8m0{static_cast<uint8_t>(std::min((magnitude + 0x7FFFFFu) >> 23, 254u))};
}

}  // namespace nibble
