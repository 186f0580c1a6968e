#include "reference/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/numbers/random.h"
#include "reference/experts.h"
#include "reference/linear.h"
#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

std::vector<float> rounded(const std::vector<float>& x) {
  const Array<float, 2> y = rounded_to_int8(rows_view(x, 1));
  return {y.view().data, y.view().data + x.size()};
}

TEST(RoundingToInt8, ABlocksLargestElementIsKeptAndTheOthersAreMultiplesOfA127thOfIt) {
  std::vector<float> x(32);
  x[3] = -127;
  x[4] = 1.4f;
  x[5] = 1.6f;
  x[6] = 2.5f;  // a tie, rounded to the even code
  x[7] = 3.5f;
  const std::vector<float> y = rounded(x);
  EXPECT_EQ(y[3], -127);
  EXPECT_EQ(y[4], 1);
  EXPECT_EQ(y[5], 2);
  EXPECT_EQ(y[6], 2);
  EXPECT_EQ(y[7], 4);
  EXPECT_EQ(y[8], 0);
}

TEST(RoundingToInt8, EachBlockHasAScaleOfItsOwn) {
  std::vector<float> x(64);
  x[0] = 127;
  x[1] = 0.3f;
  x[32] = 1.27f;
  x[33] = 0.3f;
  const std::vector<float> y = rounded(x);
  EXPECT_EQ(y[1], 0);
  EXPECT_NEAR(y[33], 0.3f, 1e-6);
}

TEST(RoundingToInt8, OfNothingIsNothing) {
  for (const float tiny : {0.0f, 0x1p-121f})
    EXPECT_EQ(rounded(std::vector<float>(32, tiny)), std::vector<float>(32));
}

TEST(RoundingToInt8, ANanShows) {
  std::vector<float> x(32, 1.0f);
  x[9] = NAN;
  EXPECT_TRUE(std::isnan(rounded(x)[9]));
}

// Only products with weights stored in MXFP4 or Q8_0 take int8 inputs.
TEST(Rounding, IsOfProductsWithBlocksAlone) {
  Matrix matrix;
  for (const Format format : {Format::kF32, Format::kBf16, Format::kE4m3, Format::kMxfp4}) {
    matrix.stored = Elements{.format = format};
    EXPECT_EQ(takes_int8({.int8_activations = true}, matrix), format == Format::kMxfp4);
    EXPECT_FALSE(takes_int8({.kv = Format::kBf16}, matrix));
  }
}

TEST(Rounding, AProductIsThatOfTheRoundedInput) {
  constexpr int kRows{2};
  const std::vector<uint8_t> codes(kRows * 16, 0x42), scales(kRows, 127);  // 1 and 2 alternating
  const Matrix weight{kRows, 32, Elements{Format::kMxfp4, codes.data(), scales.data()}};
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const std::vector<float> x8 = rounded(x);
  const Array<float, 2> alone({1, kRows}), with_rounding({1, kRows}), without({1, kRows});
  linear({rows_view(x8, 1), weight, {}, alone});
  linear({rows_view(x, 1), weight, {}, with_rounding, nullptr, {.int8_activations = true}});
  linear({rows_view(x, 1), weight, {}, without});
  EXPECT_EQ(with_rounding.view()(0, 1), alone.view()(0, 1));
  EXPECT_NE(with_rounding.view()(0, 1), without.view()(0, 1));
}

TEST(Rounding, OfKeysAndValuesIsThatOfTheirFormat) {
  EXPECT_EQ(round_to(Format::kF32, 1.01f), 1.01f);
  EXPECT_EQ(round_to(Format::kBf16, 1.01f), 1.0078125f);
  EXPECT_EQ(round_to(Format::kE4m3, 1.01f), 1.0f);
}

}  // namespace
}  // namespace nibble::reference
