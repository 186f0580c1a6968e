// Compares the quantisation of activations for block-scaled mma with the formats of core/. Needs no GPU.
#include "backend/cuda/ptx/quantise_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/numbers/bf16.h"
#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/e8m0.h"
#include "core/numbers/random.h"

namespace nibble::cuda {
namespace {

using Block = std::array<float, 32>;

double normal(uint64_t seed, uint64_t i) {
  return std::sqrt(-2 * std::log(1 - random_unit(seed, 2 * i))) *
         std::cos(2 * 3.14159265358979 * random_unit(seed, 2 * i + 1));
}
float bf16_of(double x) { return to_float(to_bf16(static_cast<float>(x))); }

// Returns random normal numbers times 2^`exponent`, some of them much larger.
Block random_block(uint64_t seed, int exponent) {
  Block block;
  for (uint64_t i = 0; i < block.size(); ++i) {
    const double outlier = seed % 3 == 0 && i % 11 == 0 ? 300 : 1;
    block[i] = bf16_of(std::ldexp(outlier * normal(seed, i), exponent));
  }
  return block;
}

struct Eight {
  float x[8];
};
Eight eight_of(const Block& block, int lane) {
  Eight eight{};
  std::copy_n(block.begin() + 8 * lane, 8, eight.x);
  return eight;
}
uint32_t largest_of(const Block& block) {
  uint32_t largest = 0;
  for (int lane = 0; lane < 4; ++lane)
    largest = std::max(largest, largest_magnitude(eight_of(block, lane).x));
  return largest;
}
double scale_value(uint8_t byte) { return to_float(E8m0{byte}); }

uint8_t code_of(const EightE4m3& codes, int c) {
  const int place = place_of(BlockForm::kMxfp8, c);
  return static_cast<uint8_t>((place < 4 ? codes.first : codes.second) >> 8 * (place % 4));
}
double value_of(const EightE4m3& codes, int c, uint8_t scale) {
  return to_float(E4m3{code_of(codes, c)}) * scale_value(scale);
}

TEST(CudaQuantiseBlock, TheScaleIsTheSmallestWithWhichNothingExceeds448) {
  for (uint64_t i = 0; i < 200'000; ++i) {
    // Tests all exponents, with random mantissas and with mantissas near 1.75, where the scale changes.
    const auto mantissa =
        static_cast<uint32_t>(i % 2 == 0 ? random_bits(1, i) & 0x7FFFFF : 0x5FFFF0 + random_bits(1, i) % 32);
    const uint32_t largest = static_cast<uint32_t>(random_bits(2, i) % 255) << 23 | mantissa;
    const uint8_t scale = mxfp8_scale(largest);
    const double magnitude = float_of_bits(largest);
    ASSERT_LE(magnitude, 448 * scale_value(scale)) << largest;
    if (scale > 0) {
      ASSERT_GT(magnitude, 448 * scale_value(static_cast<uint8_t>(scale - 1))) << largest;
    }
  }
}

// The scale must be the result of cvt.rp.satfinite.ue8m0x2 of largest / 448 on GPUs with this instruction.
// This test divides in float32. That is exact enough: for bfloat16 numbers, the rounding of the quotient
// never crosses a power of two.
TEST(CudaQuantiseBlock, TheScaleIsTheQuotientRoundedUp) {
  for (uint32_t bits = 1; bits < 0x7F80; ++bits) {
    const float largest = to_float(Bf16{static_cast<uint16_t>(bits)});
    EXPECT_EQ(mxfp8_scale(bits << 16), to_e8m0_up(largest / 448.0f).bits) << bits;
  }
}

TEST(CudaQuantiseBlock, Mxfp8IsTheNearestCode) {
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    const Block block = random_block(seed, static_cast<int>(seed % 200) - 100);
    const uint32_t largest = largest_of(block);
    const uint8_t scale = mxfp8_scale(largest);
    for (int lane = 0; lane < 4; ++lane) {
      const EightE4m3 codes = quantise_mxfp8(eight_of(block, lane).x, largest);
      for (int c = 0; c < 8; ++c) {
        const double x = block[static_cast<size_t>(8 * lane + c)];
        EXPECT_EQ(code_of(codes, c), to_e4m3(static_cast<float>(x / scale_value(scale))).bits) << x;
      }
    }
  }
}

TEST(CudaQuantiseBlock, TwoTermsAreTheValue) {
  size_t num_exact = 0, num_values = 0;
  for (uint64_t seed = 0; seed < 4'000; ++seed) {
    const Block block = random_block(seed, static_cast<int>(seed % 180) - 90);
    const uint32_t largest = largest_of(block);
    const uint8_t scale = mxfp8_scale(largest);
    for (int lane = 0; lane < 4; ++lane) {
      const TwoTerms terms = quantise_two_terms(eight_of(block, lane).x, largest);
      for (int c = 0; c < 8; ++c) {
        const double x = block[static_cast<size_t>(8 * lane + c)];
        const double sum = value_of(terms.first, c, scale) + value_of(terms.second, c, rest_scale(scale));
        // The second term has steps of 2^-9 of its scale. For numbers below 2^-6 of the first scale, the last
        // place of bfloat16 is smaller than these steps.
        EXPECT_LE(std::abs(sum - x),
                  std::abs(x) < 0x1p-6 * scale_value(scale) ? 0x1p-14 * scale_value(scale) : 0)
            << x << " of " << float_of_bits(largest);
        num_exact += sum == x;
        ++num_values;
      }
    }
  }
  EXPECT_GT(static_cast<double>(num_exact), 0.997 * static_cast<double>(num_values));
}

// For every bfloat16 number from 2^-6 of the largest to the largest, two terms must lose none of its 8 bits.
TEST(CudaQuantiseBlock, TwoTermsAreExactForEveryBfloat16NearTheLargest) {
  for (uint32_t largest = 0x3F80; largest < 0x4000; ++largest)
    for (uint32_t bits = largest - 6 * 128; bits <= largest; ++bits) {
      Eight eight{};
      eight.x[0] = to_float(Bf16{static_cast<uint16_t>(bits)});
      const uint8_t scale = mxfp8_scale(largest << 16);
      const TwoTerms terms = quantise_two_terms(eight.x, largest << 16);
      ASSERT_EQ(value_of(terms.first, 0, scale) + value_of(terms.second, 0, rest_scale(scale)), eight.x[0])
          << largest << ", " << bits;
    }
}

// If the second scale was 2^-5 of the first one, half of the first term's last place would be 512 times the
// second scale, beyond the range of E4M3.
TEST(CudaQuantiseBlock, TheSecondScaleMayNotBeSmaller) {
  Eight eight{{448, 432, 0, 0, 0, 0, 0, 0}};  // 432 lies halfway between two codes
  const TwoTerms terms = quantise_two_terms(eight.x, bits_of(448));
  const uint8_t scale = mxfp8_scale(bits_of(448));
  EXPECT_EQ(scale, 127);
  const double rest = eight.x[1] - value_of(terms.first, 1, scale);
  EXPECT_EQ(std::abs(rest), 16);
  EXPECT_EQ(std::abs(rest) / scale_value(rest_scale(scale)), 256);
  EXPECT_GT(std::abs(rest) / scale_value(static_cast<uint8_t>(scale - 5)), 448);
}

TEST(CudaQuantiseBlock, E2m1IsRoundedAsElsewhere) {
  for (uint32_t i = 0; i < 400'000; ++i) {
    const float x = i < 4'000 ? static_cast<float>(static_cast<int>(i) - 2'000) / 250
                              : float_of_bits(static_cast<uint32_t>(random_bits(7, i)));
    if (std::isnan(x)) continue;
    ASSERT_EQ(e2m1_code(x), to_e2m1(x).bits) << x;
    ASSERT_EQ(e2m1_magnitude(e2m1_code(x)), std::abs(to_float(to_e2m1(x)))) << x;
  }
}

double squared_error(const Block& block, uint8_t scale) {
  double sum = 0;
  for (const float x : block) {
    const double value = to_float(to_e2m1(static_cast<float>(x / scale_value(scale)))) * scale_value(scale);
    sum += (value - x) * (value - x);
  }
  return sum;
}
Mxfp4Errors errors_of(const Block& block, uint32_t largest) {
  Mxfp4Errors lanes[4];
  for (int lane = 0; lane < 4; ++lane) lanes[lane] = mxfp4_errors(eight_of(block, lane).x, largest);
  return {(lanes[0].of_scale + lanes[1].of_scale) + (lanes[2].of_scale + lanes[3].of_scale),
          (lanes[0].of_twice + lanes[1].of_twice) + (lanes[2].of_twice + lanes[3].of_twice)};
}

TEST(CudaQuantiseBlock, Mxfp4TakesTheScaleWithTheSmallerError) {
  int num_twice = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    const Block block = random_block(seed, static_cast<int>(seed % 40) - 20);
    const uint32_t largest = largest_of(block);
    const uint8_t lower = mxfp4_scale(largest),
                  scale = better_mxfp4_scale(largest, errors_of(block, largest));
    EXPECT_LE(scale_value(lower) * 4, double{float_of_bits(largest)});
    EXPECT_GT(scale_value(lower) * 8, double{float_of_bits(largest)});
    ASSERT_TRUE(scale == lower || scale == lower + 1);
    const auto other = static_cast<uint8_t>(scale == lower ? lower + 1 : lower);
    EXPECT_LE(squared_error(block, scale), squared_error(block, other) * (1 + 1e-5)) << seed;
    num_twice += scale != lower;
    for (int lane = 0; lane < 4; ++lane) {
      const uint32_t codes = quantise_mxfp4(eight_of(block, lane).x, largest, scale);
      for (int c = 0; c < 8; ++c) {
        const double x = block[static_cast<size_t>(8 * lane + c)];
        EXPECT_EQ(codes >> 4 * place_of(BlockForm::kMxfp4, c) & 15,
                  to_e2m1(static_cast<float>(x / scale_value(scale))).bits);
      }
    }
  }
  EXPECT_GT(num_twice, 200);  // both the lower scale and twice that scale occur
  EXPECT_LT(num_twice, 1'800);
}

TEST(CudaQuantiseBlock, ABlockOfZerosHasNoCodesAndTheLowestScale) {
  const Eight zeros{{0.0f, -0.0f}};
  const uint32_t largest = largest_magnitude(zeros.x);
  EXPECT_EQ(mxfp8_scale(largest), 0);
  EXPECT_EQ(rest_scale(mxfp8_scale(largest)), 0);
  EXPECT_EQ(better_mxfp4_scale(largest, mxfp4_errors(zeros.x, largest)), 0);
  const TwoTerms terms = quantise_two_terms(zeros.x, largest);
  EXPECT_EQ(terms.first.first | terms.first.second | terms.second.first | terms.second.second, 0u);
  EXPECT_EQ(quantise_mxfp4(zeros.x, largest, 0), 0u);
}

TEST(CudaQuantiseBlock, ABlockThatIsNotFiniteHasTheScaleThatIsNan) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
    const Eight eight{{1, 2, bad, 4, 5, 6, 7, 8}};
    const uint32_t largest = largest_magnitude(eight.x);
    EXPECT_EQ(mxfp8_scale(largest), 255);
    EXPECT_EQ(rest_scale(mxfp8_scale(largest)), 255);
    EXPECT_EQ(better_mxfp4_scale(largest, mxfp4_errors(eight.x, largest)), 255);
    const EightE4m3 codes = quantise_mxfp8(eight.x, largest);
    EXPECT_EQ(codes.first | codes.second, 0u);
    EXPECT_EQ(quantise_mxfp4(eight.x, largest, 255), 0u);
  }
}

// Tests the largest bfloat16, and numbers for which the scale is the smallest that E8M0 has, 2^-127. Two of
// these numbers are subnormal.
TEST(CudaQuantiseBlock, TheEndsOfFloat32) {
  for (const float x : {0x1.FEp127f, 0x1p-126f, 0x1p-130f, 0x1p-133f}) {
    const Eight eight{{x, -x}};
    const uint32_t largest = largest_magnitude(eight.x);
    const uint8_t scale = mxfp8_scale(largest);
    const TwoTerms terms = quantise_two_terms(eight.x, largest);
    for (int c = 0; c < 2; ++c)
      EXPECT_EQ(value_of(terms.first, c, scale) + value_of(terms.second, c, rest_scale(scale)), eight.x[c])
          << x;
  }
}

}  // namespace
}  // namespace nibble::cuda
