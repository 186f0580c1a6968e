// bfloat16: the upper half of a float32 (1 sign, 8 exponent, 7 mantissa bits).
#pragma once

#include <bit>
#include <cstdint>

namespace nibble {

struct Bf16 {
  uint16_t bits;
  friend bool operator==(Bf16, Bf16) = default;  // compares bits: -0 is not +0, a NaN equals itself
};

inline float to_float(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Rounds to nearest, ties to even. Overflow gives infinity. A NaN becomes a quiet NaN of the same sign.
inline Bf16 to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  return Bf16{static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace nibble
