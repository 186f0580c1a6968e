// Expected result of a block-scaled product (ptx/block_mma.cuh), in double precision, from the registers of
// all 32 lanes. It shares no code with the device: the positions of elements are defined here again.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda::verify {

struct WarpRegisters {  // operands [lane, register] of a warp's product d += a b
  uint32_t a[32][4], b[32][2], a_scale[32], b_scale[32];
  float d[32][4];
};

struct WarpProducts {
  double d[32][4];
  double magnitudes[32][4];  // sum of the magnitudes of all products and of the old d
};

// `a_byte`, `b_byte`: index of the first scale byte that the product uses.
WarpProducts block_truth(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers);

// Store a code (container, E4M3 or nibble) at position k of the contraction. The position must hold 0.
void put_a(BlockForm form, WarpRegisters& registers, int row, int k, uint32_t code);
void put_b(BlockForm form, WarpRegisters& registers, int column, int k, uint32_t code);
void put_a_scale(WarpRegisters& registers, int row, int byte, uint8_t scale);
void put_b_scale(WarpRegisters& registers, int column, int byte, uint8_t scale);
float& d_at(WarpRegisters& registers, int row, int column);

// Returns the value of an 8-bit container as an E2M1 operand: sign at bit 5, exponent at 4 and 3, mantissa at
// 2. Bits 1 and 0 count as more mantissa; they are zero if the code is placed correctly.
double value_of_container(uint32_t byte);

}  // namespace nibble::cuda::verify
