#include "backend/cpu/floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nibble::cpu {
namespace {

TEST(FastExp, IsOffByTwoUnitsInTheLastPlaceAtMost) {
  for (double x = -87; x <= 88; x += 0x1p-10) {
    const auto argument = static_cast<float>(x);
    const double expected = std::exp(double{argument});
    ASSERT_NEAR(fast_exp(argument), expected, 2 * 0x1p-23 * expected) << x;
  }
}

TEST(FastExp, OfZeroIsOne) { EXPECT_EQ(fast_exp(0), 1); }

TEST(FastExp, StaysWithinWhatAFloatHolds) {
  constexpr float kInfinity{std::numeric_limits<float>::infinity()};
  for (const float x : {-88.0f, -1000.0f, -kInfinity}) EXPECT_EQ(fast_exp(x), fast_exp(-87)) << x;
  for (const float x : {89.0f, 1000.0f, kInfinity}) EXPECT_EQ(fast_exp(x), fast_exp(88)) << x;
  EXPECT_LT(fast_exp(-87), 1.7e-38f);
  EXPECT_LT(fast_exp(88), kInfinity);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace nibble::cpu
