// Expected result of a block-scaled product (ptx/block_mma.cuh), in double precision, from the registers of
// all 32 lanes. This file shares no code with the kernels: it defines the places of elements a second time.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda::verify {

struct WarpRegisters {  // registers [lane, register] of a warp's product d += a b
  uint32_t a[32][4], b[32][2], a_scale[32], b_scale[32];
  float d[32][4];
};

struct WarpProducts {
  double d[32][4];
  double magnitudes[32][4];  // sum of the magnitudes of all products and of the old d
};

// Returns the expected products of a warp. `a_byte`, `b_byte`: index of the first of the scale bytes that the
// product uses.
WarpProducts block_truth(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers);

// put_a() stores a code in column k of A, put_b() in row k of B. The code is E4M3, 4-bit E2M1, or E2M1 in an
// 8-bit container. The old code in that place must be 0.
void put_a(BlockForm form, WarpRegisters& registers, int row, int k, uint32_t code);
void put_b(BlockForm form, WarpRegisters& registers, int column, int k, uint32_t code);
void put_a_scale(WarpRegisters& registers, int row, int byte, uint8_t scale);
void put_b_scale(WarpRegisters& registers, int column, int byte, uint8_t scale);
float& d_at(WarpRegisters& registers, int row, int column);

// Returns the value of an 8-bit container as an E2M1 operand: sign in bit 5, exponent in bits 4 and 3,
// mantissa in bit 2. Bits 1 and 0, which are 0 in valid containers, count as more mantissa.
double value_of_container(uint32_t byte);

}  // namespace nibble::cuda::verify
