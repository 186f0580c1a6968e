#include "core/numbers/e8m0.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nibble {
namespace {

constexpr float kInfinity{std::numeric_limits<float>::infinity()};

E8m0 code(int bits) { return E8m0{static_cast<uint8_t>(bits)}; }

TEST(E8m0, EveryCodeIsAPowerOfTwoAndTheLastIsNan) {
  for (int bits = 0; bits < 255; ++bits) EXPECT_EQ(to_float(code(bits)), std::ldexp(1.0, bits - 127)) << bits;
  EXPECT_TRUE(std::isnan(to_float(code(255))));
}

TEST(E8m0, APowerOfTwoIsItself) {
  for (int bits = 0; bits < 255; ++bits) {
    EXPECT_EQ(to_e8m0_down(to_float(code(bits))), code(bits));
    EXPECT_EQ(to_e8m0_up(to_float(code(bits))), code(bits));
    EXPECT_EQ(to_e8m0_up(-to_float(code(bits))), code(bits));  // the sign is ignored
  }
}

TEST(E8m0, WhatLiesBetweenTwoPowersGoesDownOrUp) {
  for (int bits = 0; bits < 254; ++bits) {
    const float low = to_float(code(bits)), high = to_float(code(bits + 1));
    for (const float x : {std::nextafter(low, high), (low + high) / 2, std::nextafter(high, low)}) {
      EXPECT_EQ(to_e8m0_down(x), code(bits)) << std::hexfloat << x;
      EXPECT_EQ(to_e8m0_up(x), code(bits + 1)) << std::hexfloat << x;
    }
  }
}

TEST(E8m0, SaturatesAtBothEnds) {
  for (const float x : {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), 0x1p-128f}) {
    EXPECT_EQ(to_e8m0_down(x), code(0));
    EXPECT_EQ(to_e8m0_up(x), code(0));
  }
  for (const float x : {std::nextafter(0x1p127f, kInfinity), std::numeric_limits<float>::max(), kInfinity}) {
    EXPECT_EQ(to_e8m0_down(x), code(254));
    EXPECT_EQ(to_e8m0_up(x), code(254));
  }
}

TEST(E8m0, NanStaysNan) {
  EXPECT_EQ(to_e8m0_down(std::numeric_limits<float>::quiet_NaN()), kE8m0Nan);
  EXPECT_EQ(to_e8m0_up(-std::numeric_limits<float>::quiet_NaN()), kE8m0Nan);
}

}  // namespace
}  // namespace nibble
