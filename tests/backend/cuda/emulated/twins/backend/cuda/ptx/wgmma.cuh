// C++ version of ptx/wgmma.cuh. Here wgmma is not asynchronous: each warp multiplies its own 16 rows at the
// instruction.
#pragma once

#include "backend/cuda/ptx/mma.cuh"

#define NIBBLE_WGMMA 1

namespace nibble::cuda {

inline void fence_products() {}
inline void end_products() {}
template <int later>
void wait_for_products() {}
inline void show_to_products() {}
inline uint32_t describe_columns(uint32_t address) { return address / 16; }
inline uint32_t describe_rows(uint32_t address, uint32_t last_columns) {
  return (last_columns - address) / 16 << 16 | address / 16;
}

// Computes one wgmma instruction. place_of(row, column) returns the byte offset of an element of B before the
// swizzle.
template <bool adds, int tiles, typename PlaceOf>
void wgmma_of(float (&d)[tiles][4], const uint32_t (&a)[4], uint32_t b, const PlaceOf& place_of) {
  struct Rows {
    uint32_t a[4];
  };
  const auto all = emulated::exchange(Rows{{a[0], a[1], a[2], a[3]}});
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  float rows[2][16];  // rows g and g + 8 of A
  for (int pair = 0; pair < 4; ++pair) {
    const Rows of_rows = all[4 * g + pair];
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 4; ++k)
        rows[r][2 * pair + k % 2 + k / 2 * 8] = bf16_at(of_rows.a[r + k / 2 * 2], k % 2);
  }
  for (int n = 0; n < tiles; ++n)
    for (int c = 0; c < 2; ++c) {
      double terms[2][17];
      for (int r = 0; r < 2; ++r) terms[r][16] = adds ? d[n][2 * r + c] : 0;
      for (int k = 0; k < 16; ++k) {
        uint32_t at = b % 0x4000 * 16 + static_cast<uint32_t>(place_of(k, 8 * n + 2 * t + c));
        at ^= (at >> 7 & 7) << 4;  // applies the swizzle
        const float of_column = bf16_at(load_shared<uint16_t>(at), 0);
        for (int r = 0; r < 2; ++r) terms[r][k] = double{rows[r][k]} * of_column;
      }
      for (int r = 0; r < 2; ++r) d[n][2 * r + c] = sum_of(terms[r]);
    }
}
template <bool adds, int tiles>
void wgmma_bf16(float (&d)[tiles][4], const uint32_t (&a)[4], uint32_t b) {
  wgmma_of<adds>(d, a, b, [](int row, int column) { return 128 * column + 2 * row; });
}
template <bool adds>
void wgmma_bf16_by_rows(float (&d)[9][4], const uint32_t (&a)[4], uint32_t b) {
  const auto to_last = static_cast<int>(b / 0x10000 * 16);
  wgmma_of<adds>(d, a, b, [&](int row, int column) {
    return column < 64 ? 128 * row + 2 * column : to_last + 128 * row + 2 * (column - 64);
  });
}
template <int registers>
void give_registers() {}
template <int registers>
void take_registers() {}

}  // namespace nibble::cuda
