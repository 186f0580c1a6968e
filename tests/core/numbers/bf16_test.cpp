#include "core/numbers/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/core/numbers/nearest.h"

namespace nibble {
namespace {

constexpr int kNumCodes{65536};

float value(int code) { return to_float(Bf16{static_cast<uint16_t>(code)}); }

TEST(Bf16, EveryCodeIsTheUpperHalfOfAFloat) {
  for (int code = 0; code < kNumCodes; ++code)
    EXPECT_EQ(std::bit_cast<uint32_t>(value(code)), static_cast<uint32_t>(code) << 16);
}

TEST(Bf16, EveryCodeSurvivesTheRoundTripAndANanStaysANan) {
  for (int code = 0; code < kNumCodes; ++code) {
    const Bf16 back = to_bf16(value(code));
    if (!std::isnan(value(code))) {
      EXPECT_EQ(back.bits, code);
    } else {
      EXPECT_EQ(back.bits, code | 0x40);  // NaN became a quiet NaN
    }
  }
}

TEST(Bf16, ANanWithAllItsBitsInTheLowerHalfStaysANan) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7F800001u)).bits, 0x7FC0);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0xFF80FFFFu)).bits, 0xFFC0);
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  std::vector<float> magnitudes;
  for (int code = 0; code < 0x7F80; ++code) magnitudes.push_back(value(code));
  // The value is halfway between the largest number and the next power of two.
  const float overflows = std::bit_cast<float>(0x7F7F8000u);
  for (const float x : rounding_cases(magnitudes)) {
    if (std::abs(x) >= overflows) continue;
    const size_t expected = nearest_code(magnitudes, x) | (std::signbit(x) ? 0x8000 : 0);
    ASSERT_EQ(to_bf16(x).bits, expected) << std::hexfloat << x;
  }
}

TEST(Bf16, OverflowsToInfinity) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7F7F7FFFu)).bits, 0x7F7F);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7F7F8000u)).bits, 0x7F80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::lowest()).bits, 0xFF80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::infinity()).bits, 0x7F80);
}

}  // namespace
}  // namespace nibble
