// Decodes the lattice types IQ2 and IQ3. A code in a block is the index of a point, which is a list of 8 or 4
// magnitudes. Each element also has a sign bit: x = scale * magnitude, negative if the bit is set. A block
// has 256 elements.
#include <bit>

#include "formats/ggml_decoders.h"
#include "formats/ggml_lattice_points.h"

namespace nibble {
namespace {

constexpr size_t kElements{256};

// A point stores each element as the index of a level. These are the magnitudes of the levels.
constexpr float kIq2Levels[4]{8, 25, 43, 0};  // no point uses the fourth level
constexpr float kIq3XxsLevels[8]{4, 12, 20, 28, 36, 44, 52, 62};
constexpr float kIq3SLevels[8]{1, 3, 5, 7, 9, 11, 13, 15};

// Writes the 8 elements of a point of IQ2. Bit l of `signs` is the sign of element l.
void write_8(float scale, uint16_t point, uint32_t signs, float* to) {
  for (size_t l = 0; l < 8; ++l) {
    const float magnitude = scale * kIq2Levels[point >> (2 * l) & 3];
    to[l] = signs >> l & 1 ? -magnitude : magnitude;
  }
}
// Writes the 4 elements of a point of IQ3.
void write_4(float scale, uint16_t point, const float (&levels)[8], uint32_t signs, float* to) {
  for (size_t l = 0; l < 4; ++l) {
    const float magnitude = scale * levels[point >> (3 * l) & 7];
    to[l] = signs >> l & 1 ? -magnitude : magnitude;
  }
}

// Some types store seven sign bits for eight elements. The eighth bit makes the number of set bits even.
uint32_t with_eighth_sign(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7;
}

// Returns nibble j of `bytes`. In each byte, the low nibble is first.
int nibble_at(const uint8_t* bytes, size_t j) { return bytes[j / 2] >> (4 * (j % 2)) & 15; }

}  // namespace

// Block: d, 8 pairs of words. A pair is for 32 elements: the four bytes of its first word are indices of
// points; its second word has four groups of seven sign bits and, in its top bits, a scale of four bits.
void decode_iq2_xxs(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  for (size_t j = 0; j < kElements / 32; ++j) {
    const uint8_t* points = bytes_at(block, 2 + 8 * j);
    const uint32_t word = word_at(block, 6 + 8 * j);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (size_t l = 0; l < 4; ++l)
      write_8(scale, kPointsIq2Xxs[points[l]], with_eighth_sign(word >> (7 * l) & 127), to + 32 * j + 8 * l);
  }
}

// Block: d, 32 words of 16 bits, scales[8]. A word is for 8 elements: it has the index of a point (9 bits)
// and seven sign bits. A scale has four bits and is for 16 elements.
void decode_iq2_xs(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  const uint8_t *words = bytes_at(block, 2), *scales = bytes_at(block, 66);
  for (size_t j = 0; j < kElements / 8; ++j) {
    const uint32_t word = words[2 * j] | static_cast<uint32_t>(words[2 * j + 1]) << 8;
    const float scale = d * (0.5f + static_cast<float>(nibble_at(scales, j / 2))) * 0.25f;
    write_8(scale, kPointsIq2Xs[word & 511], with_eighth_sign(word >> 9), to + 8 * j);
  }
}

// Block: d, points[32], signs[32], high[8], scales[8]. Bits 8 and 9 of the index of point j are bits 2(j % 4)
// and 2(j % 4) + 1 of high[j / 4].
void decode_iq2_s(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  const uint8_t *points = bytes_at(block, 2), *signs = bytes_at(block, 34), *high = bytes_at(block, 66),
                *scales = bytes_at(block, 74);
  for (size_t j = 0; j < kElements / 8; ++j) {
    const float scale = d * (0.5f + static_cast<float>(nibble_at(scales, j / 2))) * 0.25f;
    const uint32_t point = points[j] | (high[j / 4] >> (2 * (j % 4)) & 3u) << 8;
    write_8(scale, kPointsIq2S[point], signs[j], to + 8 * j);
  }
}

// Block: d, points[64], 8 words, each laid out as the second word of a pair in IQ2_XXS. Two points give 8
// elements.
void decode_iq3_xxs(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  const uint8_t* points = bytes_at(block, 2);
  for (size_t j = 0; j < kElements / 8; ++j) {
    const uint32_t word = word_at(block, 66 + 4 * (j / 4));
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = with_eighth_sign(word >> (7 * (j % 4)) & 127);
    write_4(scale, kPointsIq3Xxs[points[2 * j]], kIq3XxsLevels, signs, to + 8 * j);
    write_4(scale, kPointsIq3Xxs[points[2 * j + 1]], kIq3XxsLevels, signs >> 4, to + 8 * j + 4);
  }
}

// Block: d, points[64], high[8], signs[32], scales[4]. Bit 8 of the index of point j is bit j % 8 of
// high[j / 8]. A scale has four bits and is for 32 elements.
void decode_iq3_s(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  const uint8_t *points = bytes_at(block, 2), *high = bytes_at(block, 66), *signs = bytes_at(block, 74),
                *scales = bytes_at(block, 106);
  for (size_t j = 0; j < kElements / 4; ++j) {
    const float scale = d * static_cast<float>(1 + 2 * nibble_at(scales, j / 8));
    const uint32_t point = points[j] | (high[j / 8] >> (j % 8) & 1u) << 8;
    write_4(scale, kPointsIq3S[point], kIq3SLevels, signs[j / 2] >> (4 * (j % 2)), to + 4 * j);
  }
}

}  // namespace nibble
