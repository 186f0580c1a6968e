#include "core/tensors/shape.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Shape, AScalarHasOneElement) { EXPECT_EQ(num_elements({}), 1u); }

TEST(Shape, ElementsAreTheProductOfTheExtents) {
  EXPECT_EQ(num_elements({32, 5760, 90, 16}), 265420800u);
  EXPECT_EQ(num_elements({UINT64_MAX}), UINT64_MAX);
  EXPECT_EQ(num_elements({1ull << 32, (1ull << 32) - 1}), 0xFFFFFFFF00000000u);
}

TEST(Shape, AProductOver64BitsIsNone) {
  EXPECT_EQ(num_elements({1ull << 32, 1ull << 32}), std::nullopt);
  EXPECT_EQ(num_elements({UINT64_MAX, 2}), std::nullopt);
}

TEST(Shape, NothingTimesAnythingIsNothing) {
  EXPECT_EQ(num_elements({0, UINT64_MAX, UINT64_MAX}), 0u);
  EXPECT_EQ(num_elements({UINT64_MAX, UINT64_MAX, 0}), 0u);  // a 0 counts even after an overflow
}

TEST(Shape, IsPrintedInBrackets) { EXPECT_EQ(fmt::to_string(Shape{2880, 4096}), "[2880, 4096]"); }

}  // namespace
}  // namespace nibble
