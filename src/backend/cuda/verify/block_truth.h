// Expected result of a block-scaled product (ptx/block_mma.cuh) in double precision, from the registers of
// all 32 lanes. Shares no code with the device: the positions of elements are defined here again.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda::verify {

struct WarpRegisters {  // operands [lane, register] of a product d += a b that a warp computes
  uint32_t a[32][4], b[32][2], a_scale[32], b_scale[32];
  float d[32][4];
};

struct WarpProducts {
  double d[32][4];
  double magnitudes[32][4];  // sum of the magnitudes of all products and of the previous d
};

// `a_byte`, `b_byte`: the first byte of the scales that the product uses.
WarpProducts block_truth(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers);

// Stores a code (container, E4M3 or nibble) at position k of the contraction, where there must be 0.
void put_a(BlockForm form, WarpRegisters& registers, int row, int k, uint32_t code);
void put_b(BlockForm form, WarpRegisters& registers, int column, int k, uint32_t code);
void put_a_scale(WarpRegisters& registers, int row, int byte, uint8_t scale);
void put_b_scale(WarpRegisters& registers, int column, int byte, uint8_t scale);
float& d_at(WarpRegisters& registers, int row, int column);

// Value of an 8-bit container as an E2M1 operand: sign at bit 5, exponent at 4 and 3, mantissa at 2. Bits 1
// and 0 count as more mantissa; they are zero in a code that is placed correctly.
double value_of_container(uint32_t byte);

}  // namespace nibble::cuda::verify
