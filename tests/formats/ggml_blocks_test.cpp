// Compares decoded blocks with numbers computed by hand from the blocks' layouts. tests/e2e compares random
// blocks of every type with ggml's own Python package.
#include "formats/ggml_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/numbers/f16.h"
#include "core/numbers/random.h"
#include "formats/mxfp4.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/formats/safetensors_bytes.h"

namespace nibble {
namespace {

std::string half(float x) { return le(to_f16(x).bits); }

std::vector<float> values_of(GgmlType type, const std::string& blocks) {
  std::vector<float> values(blocks.size() / block_bytes(type) * block_elements(type));
  dequantise(type, as_bytes(blocks), values);
  return values;
}

// Returns 16 bytes whose low nibbles count up from 0 and whose high nibbles count down from 15.
std::string counting_nibbles() {
  std::string qs;
  for (int j = 0; j < 16; ++j) qs += static_cast<char>(j | (15 - j) << 4);
  return qs;
}

TEST(GgmlBlocks, PlainTypesAreTheirValues) {
  EXPECT_EQ(values_of(GgmlType::kF32, le(1.1f)), std::vector{1.1f});
  EXPECT_EQ(values_of(GgmlType::kF16, half(-0.5f)), std::vector{-0.5f});
  EXPECT_EQ(values_of(GgmlType::kBf16, le<uint16_t>(0xC040)), std::vector{-3.0f});
}

TEST(GgmlBlocks, Q8IsAScaleTimesABytesValue) {
  std::string block = half(0.25f);
  for (int j = 0; j < 32; ++j) block += static_cast<char>(j * 8 - 128);
  const std::vector<float> values = values_of(GgmlType::kQ8_0, block);
  for (int j = 0; j < 32; ++j)
    EXPECT_EQ(values[static_cast<size_t>(j)], 0.25f * static_cast<float>(j * 8 - 128));
}

TEST(GgmlBlocks, TheLowNibblesAreTheFirstHalf) {
  const std::vector<float> q4_0 = values_of(GgmlType::kQ4_0, half(2) + counting_nibbles());
  const std::vector<float> q4_1 = values_of(GgmlType::kQ4_1, half(2) + half(-3) + counting_nibbles());
  for (int j = 0; j < 16; ++j) {
    const auto first = static_cast<size_t>(j), second = first + 16;
    EXPECT_EQ(q4_0[first], 2.0f * static_cast<float>(j - 8));
    EXPECT_EQ(q4_0[second], 2.0f * static_cast<float>(7 - j));
    EXPECT_EQ(q4_1[first], 2.0f * static_cast<float>(j) - 3);
    EXPECT_EQ(q4_1[second], 2.0f * static_cast<float>(15 - j) - 3);
  }
}

TEST(GgmlBlocks, TheFifthBitOfElementJIsBitJ) {
  const uint32_t high = 1u << 3 | 1u << 20;
  const std::vector<float> q5_0 = values_of(GgmlType::kQ5_0, half(1) + le(high) + counting_nibbles());
  const std::vector<float> q5_1 =
      values_of(GgmlType::kQ5_1, half(1) + half(0.5) + le(high) + counting_nibbles());
  EXPECT_EQ(q5_0[3], 3.0f + 16 - 16);
  EXPECT_EQ(q5_0[20], 11.0f + 16 - 16);  // element 4 of the second half: nibble 15 - 4
  EXPECT_EQ(q5_0[4], 4.0f - 16);
  EXPECT_EQ(q5_1[3], 3.0f + 16 + 0.5f);
  EXPECT_EQ(q5_1[19], 12.5f);
}

TEST(GgmlBlocks, KScalesHaveSixBitsAndTheUpperFourSubBlocksTheirTopBitsElsewhere) {
  std::string block = half(1) + half(1);
  std::string scales(12, '\0');
  scales[1] = 5 | char(2 << 6);  // sub-block 1: scale 5; top bits of sub-block 5's scale: 2
  scales[5] = 7 | char(1 << 6);  // sub-block 1: minimum 7; top bits of sub-block 5's minimum: 1
  scales[9] = char(3 | 4 << 4);  // sub-block 5: scale 3 + 32, minimum 4 + 16
  std::string qs(128, '\0');
  qs[0] = char(9 << 4);       // sub-block 1, element 0
  qs[64 + 2] = char(6 << 4);  // sub-block 5, element 2
  const std::vector<float> values = values_of(GgmlType::kQ4K, block + scales + qs);
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_EQ(values[32], 5.0f * 9 - 7);
  EXPECT_EQ(values[33], -7.0f);
  EXPECT_EQ(values[5 * 32 + 2], 35.0f * 6 - 20);

  std::string qh(32, '\0');
  qh[2] = char(1 << 5);  // fifth bit in sub-block 5
  const std::vector<float> five_bits = values_of(GgmlType::kQ5K, block + scales + qh + qs);
  EXPECT_EQ(five_bits[5 * 32 + 2], 35.0f * (6 + 16) - 20);
  EXPECT_EQ(five_bits[32], 5.0f * 9 - 7);
}

TEST(GgmlBlocks, Q6KHasFourGroupsThatShareTheirTopBits) {
  std::string ql(128, '\0'), qh(64, '\0'), scales(16, '\1');
  ql[64 + 32 + 5] = char(7 << 4);  // second half, group 3, element 5: low bits 7
  qh[32 + 5] = char(2 << 6);       // the same element: top bits 2
  scales[8 + 6] = -3;              // scale of this element
  const std::vector<float> values = values_of(GgmlType::kQ6K, ql + qh + scales + half(0.5f));
  EXPECT_EQ(values[128 + 96 + 5], 0.5f * -3 * (7 + 32 - 32));
  EXPECT_EQ(values[128 + 96 + 6], 0.5f * -3 * -32);
  EXPECT_EQ(values[0], 0.5f * -32);
}

TEST(GgmlBlocks, Q2KHasAScaleAndAMinimumInTheNibblesOfAByte) {
  std::string scales(16, '\0'), qs(64, '\0');
  scales[8 + 5] = char(3 | 2 << 4);  // second half, elements 80 to 95
  qs[32 + 17] = char(3 << 4);        // second half, group 2, element 17: code 3
  const std::vector<float> values = values_of(GgmlType::kQ2K, scales + qs + half(0.5f) + half(0.25f));
  EXPECT_EQ(values[128 + 64 + 17], 0.5f * 3 * 3 - 0.25f * 2);
  EXPECT_EQ(values[128 + 64 + 18], -0.25f * 2);
  EXPECT_EQ(values[128 + 64 + 15], 0.0f);
}

TEST(GgmlBlocks, Q3KHasTheThirdBitOfAGroupInItsMaskAndScalesAround32) {
  std::string hmask(32, '\0'), qs(64, '\0'), scales(12, '\0');
  hmask[20] = char(1 << 6);      // third bit of group 6
  qs[32 + 20] = char(1 << 4);    // low bits of group 6: 1
  scales[5] = char(0x70);        // low bits of scale 13: 7
  scales[8 + 1] = char(2 << 6);  // high bits of scale 13: 2
  const std::vector<float> values = values_of(GgmlType::kQ3K, hmask + qs + scales + half(0.5f));
  EXPECT_EQ(values[6 * 32 + 20], 0.5f * (7 + 32 - 32) * (1 + 4 - 4));
  EXPECT_EQ(values[6 * 32 + 21], 0.5f * 7 * -4);
  EXPECT_EQ(values[0], 0.5f * -32 * -4);
}

TEST(GgmlBlocks, Iq4TakesItsLevelsFromATable) {
  const std::vector<float> nl = values_of(GgmlType::kIq4Nl, half(2) + counting_nibbles());
  EXPECT_EQ(nl[0], 2 * -127.f);
  EXPECT_EQ(nl[8], 2 * 1.f);
  EXPECT_EQ(nl[16], 2 * 113.f);  // the high nibbles count down

  std::string low(4, '\0'), qs(128, '\0');
  low[2] = char(5 << 4);                           // sub-block 5: low bits 5
  qs[5 * 16 + 3] = char(0xF7);                     // sub-block 5: its elements 3 and 19
  const std::string high = le<uint16_t>(3 << 10);  // sub-block 5: high bits 3
  const std::vector<float> xs = values_of(GgmlType::kIq4Xs, half(0.5f) + high + low + qs);
  EXPECT_EQ(xs[5 * 32 + 3], 0.5f * (5 + 48 - 32) * -10);
  EXPECT_EQ(xs[5 * 32 + 19], 0.5f * (5 + 48 - 32) * 113);
  EXPECT_EQ(xs[0], 0.5f * -32 * -127);
}

TEST(GgmlBlocks, Nvfp4HasAScaleWithFractionForSixteenElements) {
  // Scales 1, 1.5, 448 and the smallest, 2^-9.
  std::string qs(32, '\0');
  qs[0] = char(0x21), qs[8] = char(0x73), qs[16] = char(0xF0), qs[24] = char(0x01);
  const std::vector<float> values = values_of(GgmlType::kNvfp4, "\x38\x3C\x7E\x01" + qs);
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[8], 1.f);
  EXPECT_EQ(values[16], 1.5f * 1.5f);
  EXPECT_EQ(values[24], 1.5f * 6);
  EXPECT_EQ(values[40], 448.f * -6);
  EXPECT_EQ(values[48], 0x1p-9f * 0.5f);
}

// The same 16 code bytes in the order of safetensors and in that of GGUF.
TEST(GgmlBlocks, Mxfp4HasTheHalvesOfAGroupInItsNibbles) {
  const std::string qs = "\x21\x43\x65\x87\xA9\xCB\xED\x0F" + std::string(8, '\0');
  const std::vector<float> values = values_of(GgmlType::kMxfp4, "\x7F" + qs);
  EXPECT_THAT(std::vector(values.begin(), values.begin() + 8),
              testing::ElementsAre(0.5, 1.5, 3, 6, -0.5, -1.5, -3, -6));
  EXPECT_THAT(std::vector(values.begin() + 16, values.begin() + 24),
              testing::ElementsAre(1, 2, 4, 0, -1, -2, -4, 0));
  EXPECT_EQ(values_of(GgmlType::kMxfp4, "\x80" + qs)[0], 1.0f);
}

TEST(GgmlBlocks, Mxfp4OfOllamaHasNeighboursInItsNibbles) {
  const std::string qs = "\x21\x43" + std::string(13, '\0') + "\x70";
  const std::vector<float> values = values_of(GgmlType::kMxfp4Ollama, "\x7F" + qs);
  EXPECT_EQ((std::vector(values.begin(), values.begin() + 5)), (std::vector{0.5f, 1.f, 1.5f, 2.f, 0.f}));
  EXPECT_EQ(values[31], 6.f);
}

TEST(GgmlBlocks, RepackedMxfp4IsTheSameNumbersAndPacksBackToTheSameBytes) {
  constexpr size_t kBlocks{50};
  std::string blocks;
  for (size_t i = 0; i < kBlocks * 17; ++i)
    blocks += static_cast<char>(random_bits(3, i) % (i % 17 == 0 ? 255 : 256));
  std::vector<uint8_t> codes(kBlocks * 16), scales(kBlocks);
  unpack_mxfp4(as_bytes(blocks), codes, scales);
  std::vector<float> values(kBlocks * 32);
  decode_mxfp4(codes, scales, values);
  constexpr float kE2m1[]{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.f, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (size_t i = 0; i < kBlocks; ++i)
    // Low nibbles are elements 0 to 15, high nibbles are elements 16 to 31.
    for (size_t j = 0; j < 32; ++j) {
      const auto pair = static_cast<uint8_t>(blocks[i * 17 + 1 + j % 16]);
      const auto scale = static_cast<uint8_t>(blocks[i * 17]);
      EXPECT_EQ(values[i * 32 + j], std::ldexp(kE2m1[j < 16 ? pair & 15 : pair >> 4], scale - 127));
    }
  std::vector<std::byte> packed(blocks.size());
  pack_mxfp4(codes, scales, packed);
  EXPECT_EQ(as_text(packed), blocks);
  std::vector<uint8_t> codes_alone(codes.size()), scales_alone(scales.size());
  unpack_mxfp4(as_bytes(blocks), codes_alone, {});
  unpack_mxfp4(as_bytes(blocks), {}, scales_alone);
  EXPECT_EQ(codes_alone, codes);
  EXPECT_EQ(scales_alone, scales);
}

TEST(GgmlBlocks, Q8QuantisesToHalfAStep) {
  std::vector<float> values(64);
  for (size_t i = 0; i < 32; ++i) values[i] = static_cast<float>(random_unit(1, i) - 0.5);
  std::vector<std::byte> blocks(2 * 34);
  quantise_q8_0(values, blocks);
  std::vector<float> back(64);
  dequantise(GgmlType::kQ8_0, blocks, back);
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  // The error is half a step of largest / 127. The scale is rounded to half precision, which adds 2^-11 of up
  // to 127 steps.
  const float bound = largest / 127 * (0.5f + 127 * 0x1p-11f) * 1.001f;
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(back[i], values[i], bound) << i;
  EXPECT_EQ(back[40], 0.0f);  // a block of zeros
}

}  // namespace
}  // namespace nibble
