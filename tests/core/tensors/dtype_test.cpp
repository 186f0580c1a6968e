#include "core/tensors/dtype.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(DType, NamesLeadBackToTypes) {
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_of(name(dtype)), dtype);
  }
}

TEST(DType, ANameThatIsNoneLeadsNowhere) {
  EXPECT_EQ(dtype_of("bf16"), std::nullopt);
  EXPECT_EQ(dtype_of(""), std::nullopt);
  EXPECT_EQ(dtype_of("BF16 "), std::nullopt);
}

TEST(DType, WidthsAreThoseOfTheirNames) {
  EXPECT_EQ(num_bits(DType::kF4), 4);
  EXPECT_EQ(num_bits(DType::kF6E2M3), 6);
  EXPECT_EQ(num_bits(DType::kBool), 8);
  EXPECT_EQ(num_bits(DType::kF8E8M0), 8);
  EXPECT_EQ(num_bits(DType::kBf16), 16);
  EXPECT_EQ(num_bits(DType::kF32), 32);
  EXPECT_EQ(num_bits(DType::kC64), 64);
}

TEST(DType, IsPrintedAsItsName) { EXPECT_EQ(fmt::format("{:>6}", DType::kBf16), "  BF16"); }

}  // namespace
}  // namespace nibble
