// Emulates a block-scaled mma (block_mma.cuh) on GPUs without this instruction. The operands are in the same
// registers as for the instruction. For each block of 32 columns, two float16 mma.m16n8k16 compute the sum,
// which is then scaled in float32. Shifts and masks turn codes (also subnormals) into float16: E2M1 into
// value * 2^-14, E4M3 into value * 2^-8. In a kMxfp8 container (block_codes.h), an E2M1 code occupies bits
// 5-2 of a byte. Like the hardware, the emulation reads bits 5-0, so a code in the wrong bits gives a wrong
// result here too. NaN codes of E4M3 do not occur: a block with a NaN has the NaN scale and codes 0
// (quantise_block.h).
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda {

// The four codes of a word as float16 numbers: `even` holds those of bytes 0 and 2, `odd` those of bytes 1
// and 3.
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

// halves_of_e2m1() returns values times 2^-14, halves_of_e4m3() values times 2^-8. This function returns the
// factor that corrects a sum of A B: 2^22 for E2M1 times E4M3 (kMxfp8), 2^28 for E2M1 times E2M1 (kMxfp4).
constexpr float half_products_scale(BlockForm form) { return form == BlockForm::kMxfp8 ? 0x1p22f : 0x1p28f; }

// Operands of the two float16 mma for one block of 32 columns. The first mma takes bytes 0 and 2 of every
// word, the second bytes 1 and 3. The order of columns does not matter, because A and B have the same order.
struct HalfOperands {
  uint32_t a[2][4], b[2][2];  // [mma][register]
};
constexpr HalfOperands half_operands(BlockForm form, const uint32_t (&a)[4], const uint32_t (&b)[2],
                                     int block) {
  const auto low = [](uint32_t nibbles) { return nibbles << 2 & 0x3C3C3C3Cu; };
  const auto high = [](uint32_t nibbles) { return nibbles >> 2 & 0x3C3C3C3Cu; };
  HalfOperands operands{};
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * block + i % 2;  // kMxfp4: index of the register for row g (i even) or g + 8
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

// Returns the float32 bits of a scale: 2^(byte - 127), or NaN for byte 255.
constexpr uint32_t scale_bits(uint32_t byte) {
  return byte == 255 ? 0x7FC00000u : byte == 0 ? 0x00400000u : byte << 23;
}

}  // namespace nibble::cuda
