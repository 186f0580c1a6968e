// C++ version of ptx/mma.cuh. Hardware rounds differently: no test may depend on the rounding.
#pragma once

#include "core/numbers/f16.h"

#define NIBBLE_FP8_MMA 0

namespace nibble::cuda {

inline float bf16_at(uint32_t word, int half) {
  return std::bit_cast<float>(half ? word & 0xFFFF0000u : word << 16);
}
inline float f16_at(uint32_t word, int half) {
  return to_float(F16{static_cast<uint16_t>(word >> 16 * half)});
}
// Adds 16 products and the old accumulator. Each term is first truncated to an integer multiple of one unit,
// 2^-57 of the largest term's power of two, so the order of additions changes no bit. Hardware also adds
// these terms as one sum.
inline float sum_of(const double (&terms)[17]) {
  double largest = 0;
  for (const double term : terms) largest = std::max(largest, std::abs(term));
  // If the largest term is zero, infinite or NaN, no term needs to be rounded.
  if (!(largest > 0 && largest <= std::numeric_limits<double>::max())) {
    double sum = 0;
    for (const double term : terms) sum += term;
    return static_cast<float>(sum);
  }
  const uint64_t exponent = std::bit_cast<uint64_t>(largest) >> 52;
  const auto power_of_two = [](uint64_t biased) { return std::bit_cast<double>(biased << 52); };
  const double per_unit = power_of_two(2 * 1023 + 57 - exponent), unit = power_of_two(exponent - 57);
  int64_t sum = 0;
  for (const double term : terms) sum += static_cast<int64_t>(term * per_unit);
  return static_cast<float>(static_cast<double>(sum) * unit);
}

template <typename At>
void mma_of(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const At& at) {
  struct Operands {
    float a[4][2], b[2][2];  // the two numbers of each word
  };
  const auto all = emulated::exchange(Operands{{{at(a[0], 0), at(a[0], 1)},
                                                {at(a[1], 0), at(a[1], 1)},
                                                {at(a[2], 0), at(a[2], 1)},
                                                {at(a[3], 0), at(a[3], 1)}},
                                               {{at(b0, 0), at(b0, 1)}, {at(b1, 0), at(b1, 1)}}});
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  double terms[4][17];
  // `pair` selects the contraction indices 2 pair, 2 pair + 1, 2 pair + 8 and 2 pair + 9.
  for (int pair = 0; pair < 4; ++pair) {
    const Operands of_rows = all[4 * g + pair];
    for (int c = 0; c < 2; ++c) {
      const Operands of_column = all[4 * (2 * t + c) + pair];
      for (int r = 0; r < 2; ++r)
        for (int k = 0; k < 4; ++k)
          terms[2 * r + c][4 * pair + k] =
              double{of_rows.a[r + k / 2 * 2][k % 2]} * of_column.b[k / 2][k % 2];
    }
  }
  for (int i = 0; i < 4; ++i) {
    terms[i][16] = d[i];
    d[i] = sum_of(terms[i]);
  }
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  mma_of(d, a, b0, b1, [](uint32_t word, int half) { return bf16_at(word, half); });
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  mma_of(d, a, b0, b1, [](uint32_t word, int half) { return f16_at(word, half); });
}
inline void mma_e4m3(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t) {}

}  // namespace nibble::cuda
