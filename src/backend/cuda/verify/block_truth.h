// Works out in double precision, from the registers of all 32 lanes, what a block-scaled product (ptx/block_mma.cuh) has to give.
// Nothing of the device's code is used: where an element lies is said here once more, element by element.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda::verify {

// The registers that a warp calls the product with; the product replaces d.
struct WarpRegisters {
  uint32_t a[32][4], b[32][2], a_scale[32], b_scale[32];
  float d[32][4];
};

struct WarpProducts {
  double d[32][4];
  double magnitudes[32][4];  // of all that was added up: the products and the former d
};

// `a_byte`, `b_byte`: the byte of the scales that the product begins with.
WarpProducts block_truth(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers);

// Puts a code (a container of 8 bits, E4M3 or a nibble, as the form has it) at row `row` of A, or column `column` of B, at place k of the
// contraction, over zeros.
void put_a(BlockForm form, WarpRegisters& registers, int row, int k, uint32_t code);
void put_b(BlockForm form, WarpRegisters& registers, int column, int k, uint32_t code);
// Sets one byte of the scales of a row of A, of a column of B.
void put_a_scale(WarpRegisters& registers, int row, int byte, uint8_t scale);
void put_b_scale(WarpRegisters& registers, int column, int byte, uint8_t scale);
float& d_at(WarpRegisters& registers, int row, int column);

// The value of a container of 8 bits as an E2M1 operand: sign at bit 5, exponent at 4 and 3, mantissa at 2, and two more bits of
// mantissa below, which are zero in a code that lies at its place.
double value_of_container(uint32_t byte);

}  // namespace nibble::cuda::verify
