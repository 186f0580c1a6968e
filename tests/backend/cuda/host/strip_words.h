// Builds words of MXFP4 codes, as strips.h describes them, code by code.
#pragma once

#include <cstdint>

#include "core/numbers/random.h"

namespace nibble::cuda::test {

// The 16 codes of a lane for a group of 32 columns: eight neighbours in row g = lane / 4 (`upper`), and eight
// in row g + 8 (`lower`).
struct LaneCodes {
  uint8_t upper[8], lower[8];
};
inline LaneCodes random_lane_codes(uint64_t seed) {
  LaneCodes codes{};
  for (uint64_t c = 0; c < 8; ++c) {
    codes.upper[c] = random_bits(seed, c) & 15;
    codes.lower[c] = random_bits(seed, c + 8) & 15;
  }
  return codes;
}

// Each group is multiplied by two mma.m16n8k16, m = 0 and 1 (strips.h). Returns the word for number m: the
// codes of neighbours 4 m to 4 m + 3 in both rows. The codes of a0, a1 and a2 are in the lower half of the
// word for the even column and in the upper half for the odd column. For a3 it is the other way round.
inline uint32_t strip_word(const LaneCodes& codes, int m) {
  uint32_t word = 0;
  for (int h = 0; h < 2; ++h) {
    const auto put = [&](uint32_t bits, int to, int half) { word |= bits << (to + 16 * half); };
    const uint32_t a0 = codes.upper[4 * m + h], a1 = codes.lower[4 * m + h], a2 = codes.upper[4 * m + 2 + h],
                   a3 = codes.lower[4 * m + 2 + h];
    put(a0 >> 3, 15, h), put(a0 & 7, 6, h);
    put(a1 >> 3, 12, h), put(a1 & 7, 3, h);
    put(a2 >> 3, 9, h), put(a2 & 7, 0, h);
    put(a3 >> 3, 11, 1 - h), put(a3 >> 2 & 1, 10, 1 - h), put(a3 >> 1 & 1, 14, 1 - h), put(a3 & 1, 13, 1 - h);
  }
  return word;
}

}  // namespace nibble::cuda::test
