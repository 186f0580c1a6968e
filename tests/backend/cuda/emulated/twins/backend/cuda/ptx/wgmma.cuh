// The twin of ptx/wgmma.cuh: each warp multiplies its 16 rows by itself, when the product is issued.
#pragma once

#include "backend/cuda/ptx/mma.cuh"

#define NIBBLE_WGMMA 1

namespace nibble::cuda {

inline void fence_products() {}
inline void end_products() {}
template <int later>
void wait_for_products() {}
inline uint32_t describe_columns(uint32_t address) { return address / 16; }

template <bool adds, int tiles>
void wgmma_bf16(float (&d)[tiles][4], const uint32_t (&a)[4], uint32_t b) {
  struct Rows {
    uint32_t a[4];
  };
  const auto all = emulated::exchange(Rows{{a[0], a[1], a[2], a[3]}});
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  // In the order in which the twin of mma.sync adds up: the hardware's are the same as well.
  constexpr int kPlaces[16]{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  float rows[2][16];  // of A: g and g + 8
  for (int pair = 0; pair < 4; ++pair) {
    const Rows of_rows = all[4 * g + pair];
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 4; ++k) rows[r][4 * pair + k] = bf16_at(of_rows.a[r + k / 2 * 2], k % 2);
  }
  for (int n = 0; n < tiles; ++n)
    for (int c = 0; c < 2; ++c) {
      float sums[2]{adds ? d[n][c] : 0, adds ? d[n][2 + c] : 0};
      for (int k = 0; k < 16; ++k) {
        uint32_t at = 16 * b + static_cast<uint32_t>((8 * n + 2 * t + c) * 128 + 2 * kPlaces[k]);
        at ^= (at >> 7 & 7) << 4;  // the swizzle
        const float of_column = bf16_at(load_shared<uint16_t>(at), 0);
        for (int r = 0; r < 2; ++r) sums[r] += rows[r][k] * of_column;
      }
      d[n][c] = sums[0];
      d[n][2 + c] = sums[1];
    }
}
template <int registers>
void give_registers() {}
template <int registers>
void take_registers() {}

}  // namespace nibble::cuda
