#include "formats/mxfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/numbers/e2m1.h"
#include "core/numbers/random.h"

namespace nibble {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using Values = std::array<float, kMxfp4BlockSize>;

constexpr Mxfp4Rule kRules[] = {Mxfp4Rule::kOcp, Mxfp4Rule::kLlamaCpp, Mxfp4Rule::kCeil};
constexpr float kMax{std::numeric_limits<float>::max()};

// Returns `values`, padded with zeros to 32.
Values block_of(std::initializer_list<float> values) {
  Values block{};
  std::ranges::copy(values, block.begin());
  return block;
}

Values random_values(uint64_t seed, float magnitude) {
  Values values{};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = magnitude * static_cast<float>(2 * random_unit(seed, i) - 1);
  return values;
}

bool survives(const Values& values) { return decode(encode(values)) == values; }

TEST(Mxfp4, IsExactForAllBlocksThatWereDecodedFromIt) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Mxfp4Block block{.codes = {}, .scale = E8m0{static_cast<uint8_t>(random_bits(seed, 99) % 245 + 5)}};
    // Use few different codes, so that blocks without the values 4 and 6 are frequent.
    const uint64_t kinds = random_bits(seed, 98) % 8 + 1;
    for (size_t b = 0; b < block.codes.size(); ++b)
      block.codes[b] =
          static_cast<uint8_t>(random_bits(seed, b) % kinds | random_bits(seed, b + 32) % kinds << 4 |
                               (random_bits(seed, b + 64) & 0x88));
    const Values values = decode(block);
    ASSERT_TRUE(is_exact(values)) << seed;
    ASSERT_TRUE(survives(values)) << seed;
  }
}

TEST(Mxfp4, IsExactSaysWhetherEncodingKeepsAllValues) {
  int num_exact = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Values values{};
    // few values with few bits, so that exact and inexact blocks are frequent
    for (size_t i = 0; i < 4; ++i) {
      const auto quarter = static_cast<float>(random_bits(seed, i) % 17);
      values[7 * i] = std::ldexp(quarter / 4, static_cast<int>(random_bits(seed, i + 8) % 3)) *
                      (random_bits(seed, i + 16) % 2 == 0 ? 1.0F : -1.0F);
    }
    ASSERT_EQ(is_exact(values), survives(values)) << seed;
    num_exact += is_exact(values);
  }
  EXPECT_GT(num_exact, 500);
  EXPECT_LT(num_exact, 19500);
  EXPECT_TRUE(is_exact(Values{}));
  EXPECT_FALSE(is_exact(block_of({1, kMax * 2})));
  EXPECT_FALSE(is_exact(block_of({1, std::nanf("")})));
}

int code(const Mxfp4Block& block, size_t i) { return block.codes[i / 2] >> (i % 2 * 4) & 15; }

std::vector<float> rounded(const Values& values, Mxfp4Rule rule, size_t num_values) {
  const Values decoded = decode(encode(values, rule));
  return {decoded.begin(), decoded.begin() + static_cast<ptrdiff_t>(num_values)};
}

TEST(Mxfp4, TheLowNibbleIsTheEvenElement) {
  const Mxfp4Block block{.codes = {0x21}, .scale = {127}};  // scale 127 is 2^0
  EXPECT_EQ(decode(block)[0], 0.5f);                        // code 1
  EXPECT_EQ(decode(block)[1], 1.0f);                        // code 2
}

TEST(Mxfp4, AllCodesDecodeAsTheSheetSays) {
  const std::array<uint8_t, 8> bytes{0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F};
  const std::vector<float> sheet{0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6, 0};
  Mxfp4Block block{.codes = {}, .scale = {127}};
  std::ranges::copy(bytes, block.codes.begin());
  for (size_t i = 0; i < sheet.size(); ++i) {
    EXPECT_EQ(decode(block)[i], sheet[i]) << i;
    EXPECT_EQ(std::signbit(decode(block)[i]), std::signbit(sheet[i])) << i;
  }
  block.scale = {128};
  for (size_t i = 0; i < sheet.size(); ++i) EXPECT_EQ(decode(block)[i], 2 * sheet[i]) << i;
}

TEST(Mxfp4, EveryScaleIsExactDenormalsIncluded) {
  Mxfp4Block block;
  for (size_t b = 0; b < kMxfp4CodeBytes; ++b) block.codes[b] = static_cast<uint8_t>(b | (15 - b) << 4);
  for (int scale = 0; scale < 255; ++scale) {
    block.scale = {static_cast<uint8_t>(scale)};
    const Values values = decode(block);
    for (size_t b = 0; b < kMxfp4CodeBytes; ++b) {
      // The product is exact in double. Beyond the range of float32 the expected value is infinite.
      const double low = std::ldexp(kE2m1Values[b], scale - 127);
      const double high = std::ldexp(kE2m1Values[15 - b], scale - 127);
      EXPECT_EQ(values[2 * b], std::abs(low) > kMax ? std::copysign(HUGE_VAL, low) : low)
          << scale << ' ' << b;
      EXPECT_EQ(values[2 * b + 1], std::abs(high) > kMax ? std::copysign(HUGE_VAL, high) : high)
          << scale << ' ' << b;
    }
  }
}

TEST(Mxfp4, TheLastScaleIsNan) { EXPECT_THAT(decode({.codes = {}, .scale = {255}}), Each(testing::IsNan())); }

TEST(Mxfp4, WhatIsDecodedEncodesToItself) {
  // If the largest element is 6 times the scale, every rule chooses the same scale again. (The floor rules
  // kOcp and kLlamaCpp also do so if it is 4 times the scale.)
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Mxfp4Block block{.codes = {}, .scale = {static_cast<uint8_t>(random_bits(seed, 99) % 253)}};
    for (size_t b = 0; b < kMxfp4CodeBytes; ++b) block.codes[b] = static_cast<uint8_t>(random_bits(seed, b));
    block.codes[seed % kMxfp4CodeBytes] |= 0x07;  // an element of 6 or -6
    for (const Mxfp4Rule rule : {Mxfp4Rule::kOcp, Mxfp4Rule::kCeil}) {
      const Mxfp4Block again = encode(decode(block), rule);
      EXPECT_EQ(again.scale, block.scale);
      EXPECT_EQ(again.codes, block.codes);
    }
    const Mxfp4Block again = encode(decode(block), Mxfp4Rule::kLlamaCpp);
    EXPECT_EQ(again.scale, block.scale);
    for (size_t i = 0; i < kMxfp4BlockSize; ++i)
      EXPECT_EQ(code(again, i), code(block, i) == 8 ? 0 : code(block, i));
  }
}

TEST(Mxfp4, TiesGoToEvenOrToTheSmallerMagnitude) {
  const Values values =
      block_of({6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5});
  const std::vector<float> even{6, 0, 1, 1, 2, 2, 4, 4, -0.0f, -1, -1, -2, -2, -4, -4};
  const std::vector<float> smaller{6, 0, 0.5, 1, 1.5, 2, 3, 4, 0, -0.5, -1, -1.5, -2, -3, -4};
  EXPECT_THAT(rounded(values, Mxfp4Rule::kOcp, even.size()), ElementsAreArray(even));
  EXPECT_THAT(rounded(values, Mxfp4Rule::kCeil, even.size()), ElementsAreArray(even));
  EXPECT_THAT(rounded(values, Mxfp4Rule::kLlamaCpp, smaller.size()), ElementsAreArray(smaller));
}

TEST(Mxfp4, NeitherScaleRuleDominates) {
  // With scale 1 the largest value, 7, is clamped to 6. With scale 2 it rounds to 8.
  EXPECT_EQ(encode(block_of({7}), Mxfp4Rule::kOcp).scale, E8m0{127});
  EXPECT_EQ(rounded(block_of({7}), Mxfp4Rule::kOcp, 1)[0], 6);
  EXPECT_EQ(encode(block_of({7}), Mxfp4Rule::kLlamaCpp).scale, E8m0{127});
  EXPECT_EQ(rounded(block_of({7}), Mxfp4Rule::kLlamaCpp, 1)[0], 6);
  EXPECT_EQ(encode(block_of({7}), Mxfp4Rule::kCeil).scale, E8m0{128});
  EXPECT_EQ(rounded(block_of({7}), Mxfp4Rule::kCeil, 1)[0], 8);
}

TEST(Mxfp4, TheFloorRuleChangesScaleAtPowersOfTwo) {
  for (int exponent = -120; exponent <= 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    EXPECT_EQ(encode(block_of({-power}), Mxfp4Rule::kOcp).scale.bits, exponent - 2 + 127);
    EXPECT_EQ(encode(block_of({std::nextafter(power, 0.0f)}), Mxfp4Rule::kOcp).scale.bits,
              exponent - 3 + 127);
  }
}

TEST(Mxfp4, TheCeilRuleTakesTheSmallestScaleThatCutsNothing) {
  for (int exponent = -126; exponent <= 125; ++exponent) {
    const float six = std::ldexp(6.0f, exponent);
    EXPECT_EQ(encode(block_of({six}), Mxfp4Rule::kCeil).scale.bits, exponent + 127);
    EXPECT_EQ(encode(block_of({-std::nextafter(six, kMax)}), Mxfp4Rule::kCeil).scale.bits, exponent + 128);
  }
  EXPECT_EQ(encode(block_of({kMax}), Mxfp4Rule::kCeil).scale.bits, 126 + 127);
}

TEST(Mxfp4, TheSmallestScaleTakesWhatIsSmaller) {
  for (const Mxfp4Rule rule : kRules) {
    EXPECT_EQ(encode(Values{}, rule).scale, E8m0{0});
    EXPECT_THAT(decode(encode(Values{}, rule)), Each(0.0f));
    // The values are subnormal in float32. In units of 2^-127 they are 0.5, 1.5 and, rounded to nearest, 0.5
    // and 0.
    const Values tiny = block_of({0x1p-128f, 0x3p-128f, 0x1.8p-129f, 0x1.8p-130f});
    EXPECT_EQ(encode(tiny, rule).scale, E8m0{0});
    EXPECT_THAT(rounded(tiny, rule, 4), testing::ElementsAre(0x1p-128f, 0x3p-128f, 0x1p-128f, 0.0f));
  }
}

TEST(Mxfp4, NanAndInfinityPoisonTheirBlock) {
  for (const Mxfp4Rule rule : kRules)
    for (const float bad : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
      Values values = random_values(1, 1);
      values[31] = bad;
      EXPECT_EQ(encode(values, rule).scale, kE8m0Nan);
      EXPECT_THAT(decode(encode(values, rule)), Each(testing::IsNan()));
    }
}

TEST(Mxfp4, EveryElementIsTheNearestThatItsScaleHas) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Values values = random_values(seed, std::ldexp(1.0f, static_cast<int>(seed) - 150));
    for (const Mxfp4Rule rule : kRules) {
      const Mxfp4Block block = encode(values, rule);
      const double scale = std::ldexp(1.0, block.scale.bits - 127);
      for (size_t i = 0; i < values.size(); ++i) {
        double nearest = HUGE_VAL;
        for (const float candidate : kE2m1Values)
          nearest = std::min(nearest, std::abs(candidate * scale - values[i]));
        EXPECT_EQ(std::abs(kE2m1Values[static_cast<size_t>(code(block, i))] * scale - values[i]), nearest);
      }
    }
  }
}

TEST(Mxfp4, ARowIsItsBlocksInOrder) {
  constexpr size_t kNumBlocks{3};
  std::vector<float> values;
  std::vector<uint8_t> expected_codes, expected_scales;
  for (size_t i = 0; i < kNumBlocks; ++i) {
    const Values part = random_values(i, static_cast<float>(i + 1));
    const Mxfp4Block block = encode(part, Mxfp4Rule::kCeil);
    values.insert(values.end(), part.begin(), part.end());
    expected_codes.insert(expected_codes.end(), block.codes.begin(), block.codes.end());
    expected_scales.push_back(block.scale.bits);
  }
  std::vector<uint8_t> codes(kNumBlocks * kMxfp4CodeBytes), scales(kNumBlocks);
  encode_mxfp4(values, codes, scales, Mxfp4Rule::kCeil);
  EXPECT_EQ(codes, expected_codes);
  EXPECT_EQ(scales, expected_scales);

  std::vector<float> decoded(values.size());
  decode_mxfp4(codes, scales, decoded);
  for (size_t i = 0; i < kNumBlocks; ++i) {
    const Values part = decode(encode(random_values(i, static_cast<float>(i + 1)), Mxfp4Rule::kCeil));
    EXPECT_TRUE(std::ranges::equal(part, std::span(decoded).subspan(i * kMxfp4BlockSize, kMxfp4BlockSize)))
        << i;
  }
}

TEST(Mxfp4, SizesThatDoNotFitAreABug) {
  std::vector<float> values(33);
  std::vector<uint8_t> codes(16), scales(1);
  EXPECT_DEATH(decode_mxfp4(codes, scales, values), "33 values");
  values.resize(32);
  codes.resize(17);
  EXPECT_DEATH(encode_mxfp4(values, codes, scales), "17 bytes of codes");
}

}  // namespace
}  // namespace nibble
