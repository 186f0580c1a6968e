// E4M3, the 8-bit float of the OCP FP8 specification (also called E4M3FN): 1 sign, 4 exponent (bias 7) and 3
// mantissa bits. No infinities; the two codes with all other bits set are NaN; the largest value is 448.
#pragma once

#include <bit>
#include <cstdint>

namespace nibble {

struct E4m3 {
  uint8_t bits;
  friend bool operator==(E4m3, E4m3) = default;  // compares bits: a NaN equals itself
};

inline float to_float(E4m3 x) {
  const uint32_t sign = (x.bits & 0x80u) << 24;
  const uint32_t magnitude = x.bits & 0x7Fu;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (magnitude < 8) {  // subnormal (exponent 0): a multiple of 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + ((127u - 7u) << 23)));
}

// Rounds to nearest, ties to even; saturates at 448, keeping the sign (CUDA's satfinite). A NaN stays a NaN.
inline E4m3 to_e4m3(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t code = 0;
  if (magnitude > 0x7F800000u) {
    code = 0x7F;
  } else if (magnitude >= std::bit_cast<uint32_t>(448.0f)) {
    code = 0x7E;
  } else if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {
    // E4M3 values up to 2^-6 are multiples of 2^-9, which is the spacing of float32 values from 2^14 to 2^15.
    // So adding 2^14 rounds to such a multiple.
    code =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f);
  } else {
    code = ((magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20) - ((127u - 7u) << 3);
  }
  return E4m3{static_cast<uint8_t>(sign | code)};
}

}  // namespace nibble
