// The twin of ptx/mma.cuh. A product's 16 columns, and what was there, are added up as one sum, as by the hardware: so their order changes no bit. It is
// rounded once, where hardware rounds otherwise, and no test may depend on that.
#pragma once

#include "core/f16.h"

#define NIBBLE_FP8_MMA 0

namespace nibble::cuda {

inline float bf16_at(uint32_t word, int half) {
  return std::bit_cast<float>(half ? word & 0xFFFF0000u : word << 16);
}
inline float f16_at(uint32_t word, int half) {
  return to_float(F16{static_cast<uint16_t>(word >> 16 * half)});
}
template <typename At>
void mma_of(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const At& at) {
  struct Operands {
    float a[4][2], b[2][2];  // a word's two numbers
  };
  const auto all = emulated::exchange(Operands{{{at(a[0], 0), at(a[0], 1)},
                                                {at(a[1], 0), at(a[1], 1)},
                                                {at(a[2], 0), at(a[2], 1)},
                                                {at(a[3], 0), at(a[3], 1)}},
                                               {{at(b0, 0), at(b0, 1)}, {at(b1, 0), at(b1, 1)}}});
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  double sums[4]{d[0], d[1], d[2], d[3]};
  for (int pair = 0; pair < 4; ++pair) {  // of the contraction: 2 pair, 2 pair + 1, and 8 more
    const Operands of_rows = all[4 * g + pair];
    for (int c = 0; c < 2; ++c) {
      const Operands of_column = all[4 * (2 * t + c) + pair];
      for (int r = 0; r < 2; ++r)
        for (int k = 0; k < 4; ++k)
          sums[2 * r + c] += double{of_rows.a[r + k / 2 * 2][k % 2]} * of_column.b[k / 2][k % 2];
    }
  }
  for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(sums[i]);
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  mma_of(d, a, b0, b1, [](uint32_t word, int half) { return bf16_at(word, half); });
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  mma_of(d, a, b0, b1, [](uint32_t word, int half) { return f16_at(word, half); });
}
inline void mma_e4m3(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t) {}

}  // namespace nibble::cuda
