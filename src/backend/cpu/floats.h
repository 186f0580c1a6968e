// Vectors of four floats by a compiler extension, because GCC does not vectorise loops that compare floats.
// Also a branch-free e^x, which has the same bits on every machine:
//   e^x = 2^n e^r      n = x / ln 2, rounded      r = x - n ln 2, |r| <= ln 2 / 2: polynomial of degree 7
// Error: at most 2 ulp (tests/backend/cpu/floats_test.cpp). x is clamped to [-87, 88]; e^NaN is NaN.
#pragma once

#include <cstdint>
#include <cstring>

namespace nibble::cpu {

using Floats = float __attribute__((vector_size(16)));
using Words = uint32_t __attribute__((vector_size(16)));

inline Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }
inline Floats broadcast(float x) { return Floats{x, x, x, x}; }
// lesser() and greater() return `a` if `a` or `b` is a NaN.
inline Floats lesser(Floats a, Floats b) { return a > b ? b : a; }
inline Floats greater(Floats a, Floats b) { return a < b ? b : a; }

inline Floats fast_exp(Floats x) {
  constexpr float kLog2E{1.44269504f}, kLn2High{0.693359375f}, kLn2Low{-2.12194440e-4f};
  // Adding kWhole rounds a number to the nearest integer, which is then in the low bits of the sum.
  constexpr float kWhole{0x1.8p23f};
  x = lesser(greater(x, broadcast(-87)), broadcast(88));
  const Floats shifted = x * kLog2E + kWhole;
  const Floats n = shifted - kWhole;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  // Computes 1 + r + r^2 / 2 + ... Coefficients and parts of ln 2 are those of Cephes' expf (S. L. Moshier).
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Words power = (reinterpret_cast<Words>(shifted) - (0x4B400000u - 127u)) << 23;
  return p * reinterpret_cast<Floats>(power);
}
inline float fast_exp(float x) { return fast_exp(broadcast(x))[0]; }

}  // namespace nibble::cpu
