// E2M1, the 4-bit float of the OCP Microscaling specification: 1 sign, 2 exponent (bias 1) and 1 mantissa
// bit. Every code is a number: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace nibble {

struct E2m1 {
  uint8_t bits;  // the code in the lower four bits, zero in the upper four
  friend bool operator==(E2m1, E2m1) = default;
};

constexpr std::array<float, 16> kE2m1Values{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                            -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float to_float(E2m1 x) { return kE2m1Values[x.bits]; }

// Rounds to nearest, ties to even; saturates at 6, keeping the sign. A NaN becomes +6, as in CUDA.
inline E2m1 to_e2m1(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 28) & 0x8u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return E2m1{7};
  uint32_t code = 0;
  if (magnitude >= std::bit_cast<uint32_t>(6.0f)) {
    code = 7;
  } else if (magnitude < std::bit_cast<uint32_t>(1.0f)) {
    // E2M1 values up to 1 are multiples of 1/2, which is the spacing of float32 values from 2^22 to 2^23. So
    // adding 2^22 rounds to such a multiple.
    code =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p22f) - std::bit_cast<uint32_t>(0x1p22f);
  } else {
    code = ((magnitude + 0x1FFFFFu + ((magnitude >> 22) & 1u)) >> 22) - ((127u - 1u) << 1);
  }
  return E2m1{static_cast<uint8_t>(sign | code)};
}

}  // namespace nibble
