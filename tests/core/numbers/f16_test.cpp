#include "core/numbers/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/core/numbers/nearest.h"

namespace nibble {
namespace {

constexpr int kInfinityCode{0x7C00};

float half(int code) { return to_float(F16{static_cast<uint16_t>(code)}); }

TEST(F16, EveryCodeIsMantissaTimesPowerOfTwo) {
  for (int code = 0; code < kInfinityCode; ++code) {
    const int exponent = code >> 10, mantissa = code & 0x3FF;
    const float expected = exponent == 0 ? static_cast<float>(std::ldexp(mantissa, -24))
                                         : static_cast<float>(std::ldexp(1024 + mantissa, exponent - 25));
    EXPECT_EQ(half(code), expected) << code;
    EXPECT_EQ(half(code | 0x8000), -expected) << code;
  }
  EXPECT_EQ(half(kInfinityCode), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half(kInfinityCode | 0x8000), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half(0x7C01)) && std::isnan(half(0xFFFF)));
}

TEST(F16, RoundingIsToTheNearestWithTiesToEven) {
  std::vector<float> magnitudes;
  for (int code = 0; code < kInfinityCode; ++code) magnitudes.push_back(half(code));
  // 65520 is half a step above the largest number. This tie rounds to its even neighbour, 65536, which
  // becomes infinity.
  const float overflow = 65520;
  for (const float x : rounding_cases(magnitudes)) {
    const size_t nearest = std::abs(x) >= overflow ? size_t{kInfinityCode} : nearest_code(magnitudes, x);
    ASSERT_EQ(to_f16(x).bits, nearest | (std::signbit(x) ? 0x8000u : 0)) << x;
  }
}

TEST(F16, ANanStaysANan) {
  EXPECT_EQ(to_f16(std::bit_cast<float>(0x7F800001u)).bits, 0x7E00);
  EXPECT_EQ(to_f16(std::bit_cast<float>(0xFF80FFFFu)).bits, 0xFE00);
}

}  // namespace
}  // namespace nibble
