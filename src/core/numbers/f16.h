// IEEE 754 half precision: 1 sign, 5 exponent, 10 mantissa bits. The scales in GGUF blocks have this type.
#pragma once

#include <bit>
#include <cstdint>

namespace nibble {

struct F16 {
  uint16_t bits;
  friend bool operator==(F16, F16) = default;  // compares bits
};

inline float to_float(F16 x) {  // exact; a NaN keeps its sign and payload
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  // Exponent and mantissa bits, read as a float32, give the value times 2^-112, also for a subnormal half.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// Rounds to nearest, ties to even. Overflow gives infinity. A NaN becomes a quiet NaN of the same sign.
inline F16 to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const auto with_sign = [sign](uint32_t half) { return F16{static_cast<uint16_t>(sign | half)}; };
  if (magnitude > 0x7F800000u) return with_sign(0x7E00u);
  // 65520 is halfway between the largest half (65504) and the next multiple of 32: it rounds up to infinity.
  if (magnitude >= 0x477FF000u) return with_sign(0x7C00u);
  // Subnormal half, a multiple of 2^-24. Adding 1/2 rounds to such a multiple: float32 values from 1/2 to 1
  // are 2^-24 apart. The low bits of the sum are then the multiple, counted in units of 2^-24.
  if (magnitude < 0x38800000u) {
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return with_sign((rounded - 0x38000000u) >> 13);
}

}  // namespace nibble
