#include "core/numbers/e2m1.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/core/numbers/nearest.h"

namespace nibble {
namespace {

const std::vector<float> kMagnitudes{0, 0.5, 1, 1.5, 2, 3, 4, 6};

TEST(E2m1, AllSixteenCodesAreWhatTheirBitsSay) {
  for (int code = 0; code < 16; ++code) {
    const int exponent = (code >> 1) & 3, mantissa = code & 1;
    const double magnitude = exponent == 0 ? mantissa * 0.5 : std::ldexp(2 + mantissa, exponent - 2);
    const float value = to_float(E2m1{static_cast<uint8_t>(code)});
    EXPECT_EQ(std::abs(value), magnitude) << code;
    EXPECT_EQ(std::signbit(value), code >= 8) << code;
    EXPECT_EQ(to_e2m1(value).bits, code);
  }
}

TEST(E2m1, RoundsToTheNearestAndTiesToEven) {
  for (const float x : rounding_cases(kMagnitudes)) {
    const size_t expected = nearest_code(kMagnitudes, x) | (std::signbit(x) ? 8 : 0);
    ASSERT_EQ(to_e2m1(x).bits, expected) << std::hexfloat << x;
  }
}

TEST(E2m1, TiesInFull) {
  const std::vector<std::pair<float, float>> ties{{0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2},
                                                  {2.5f, 2},  {3.5f, 4},  {5.0f, 4}};
  for (const auto& [x, rounded] : ties) {
    EXPECT_EQ(to_float(to_e2m1(x)), rounded) << x;
    EXPECT_EQ(to_float(to_e2m1(-x)), -rounded) << x;
  }
}

TEST(E2m1, SaturatesAndHasNoNan) {
  EXPECT_EQ(to_e2m1(1e30f).bits, 7);
  EXPECT_EQ(to_e2m1(-std::numeric_limits<float>::infinity()).bits, 15);
  EXPECT_EQ(to_e2m1(std::numeric_limits<float>::quiet_NaN()).bits, 7);
  EXPECT_EQ(to_e2m1(-std::numeric_limits<float>::quiet_NaN()).bits, 7);
}

}  // namespace
}  // namespace nibble
