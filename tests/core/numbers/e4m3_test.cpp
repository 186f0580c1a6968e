#include "core/numbers/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/core/numbers/nearest.h"

namespace nibble {
namespace {

// Returns the value by definition: (-1)^s 2^(e-7) (1 + m/8), and 2^-6 m/8 where e is 0.
double defined_value(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

std::vector<float> magnitudes() {
  std::vector<float> values;
  for (int code = 0; code < 0x7F; ++code) values.push_back(static_cast<float>(defined_value(code)));
  return values;
}

TEST(E4m3, EveryCodeIsWhatItsBitsSay) {
  for (int code = 0; code < 256; ++code) {
    const float value = to_float(E4m3{static_cast<uint8_t>(code)});
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, defined_value(code)) << code;
    }
  }
}

TEST(E4m3, LandmarksOfTheSpecification) {
  EXPECT_EQ(to_float(E4m3{0x7E}), 448.0f);            // largest
  EXPECT_EQ(to_float(E4m3{0x08}), 0x1p-6f);           // smallest normal
  EXPECT_EQ(to_float(E4m3{0x07}), 0.875f * 0x1p-6f);  // largest subnormal
  EXPECT_EQ(to_float(E4m3{0x01}), 0x1p-9f);           // smallest
}

TEST(E4m3, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    const E4m3 x{static_cast<uint8_t>(code)};
    EXPECT_EQ(to_e4m3(to_float(x)).bits, x.bits);
  }
}

TEST(E4m3, RoundsToTheNearestAndTiesToEven) {
  const std::vector<float> values = magnitudes();
  for (const float x : rounding_cases(values)) {
    const size_t expected = nearest_code(values, x) | (std::signbit(x) ? 0x80 : 0);
    ASSERT_EQ(to_e4m3(x).bits, expected) << std::hexfloat << x;
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  constexpr float kInfinity{std::numeric_limits<float>::infinity()},
      kNan{std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(to_e4m3(1e30f).bits, 0x7E);
  EXPECT_EQ(to_e4m3(-kInfinity).bits, 0xFE);
  EXPECT_EQ(to_e4m3(kNan).bits, 0x7F);
  EXPECT_EQ(to_e4m3(-kNan).bits, 0xFF);
}

}  // namespace
}  // namespace nibble
