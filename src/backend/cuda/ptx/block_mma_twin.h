// The twin of a block-scaled product (block_mma.cuh) for GPUs without one: two products of halves, m16n8k16, for each block of 32
// columns, whose sum takes the scales in float32. Operands and scales lie in the same registers.
//
// Codes become halves by shifts and masks, and the lowest exponents of both formats meet: read as halves, E2M1 is its value times
// 2^-14 and E4M3 its value times 2^-8, subnormals included. E2M1 is read as the six bits that the hardware reads (block_codes.h), so
// that a code at the wrong place is a wrong number here too. The two codes of E4M3 that are NaN are read as 480 and -480: nobody makes
// them, a block with a NaN has the scale that is NaN (quantise_block.h).
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda {

// The halves that a word's four codes become: those of bytes 0 and 2, then those of bytes 1 and 3.
struct TwoPairs {
  uint32_t even, odd;
};
constexpr TwoPairs halves_of_e2m1(uint32_t four) {
  return {(four & 0x00200020u) << 10 | (four & 0x001F001Fu) << 7,
          (four & 0x20002000u) << 2 | (four & 0x1F001F00u) >> 1};
}
constexpr TwoPairs halves_of_e4m3(uint32_t four) {
  return {(four & 0x00800080u) << 8 | (four & 0x007F007Fu) << 7,
          (four & 0x80008000u) | (four & 0x7F007F00u) >> 1};
}

// The twin's product of halves has to be multiplied by this.
constexpr float half_products_scale(BlockForm form) { return form == BlockForm::kMxfp8 ? 0x1p22f : 0x1p28f; }

// The operands of both products of block `block`. Which column of the contraction is which of m16n8k16's does not matter, as long as A
// and B agree: bytes 0 and 2 of every word go to the first product, bytes 1 and 3 to the second.
struct HalfOperands {
  uint32_t a[2][4], b[2][2];  // [product]
};
constexpr HalfOperands half_operands(BlockForm form, const uint32_t (&a)[4], const uint32_t (&b)[2],
                                     int block) {
  const auto low = [](uint32_t nibbles) { return nibbles << 2 & 0x3C3C3C3Cu; };
  const auto high = [](uint32_t nibbles) { return nibbles >> 2 & 0x3C3C3C3Cu; };
  HalfOperands operands{};
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * block + i % 2;  // the register of kMxfp4 that has this row
    const uint32_t four = form == BlockForm::kMxfp8 ? a[i] : i < 2 ? low(a[row]) : high(a[row]);
    const TwoPairs pairs = halves_of_e2m1(four);
    operands.a[0][i] = pairs.even;
    operands.a[1][i] = pairs.odd;
  }
  for (int i = 0; i < 2; ++i) {
    const TwoPairs pairs = form == BlockForm::kMxfp8
                               ? halves_of_e4m3(b[i])
                               : halves_of_e2m1(i == 0 ? low(b[block]) : high(b[block]));
    operands.b[0][i] = pairs.even;
    operands.b[1][i] = pairs.odd;
  }
  return operands;
}

// The bits of the float32 that a scale is: 2^(byte - 127), and NaN for 255.
constexpr uint32_t scale_bits(uint32_t byte) {
  return byte == 255 ? 0x7FC00000u : byte == 0 ? 0x00400000u : byte << 23;
}

}  // namespace nibble::cuda
