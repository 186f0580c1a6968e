#include "reference/rms_norm.h"

#include <gtest/gtest.h>

#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquareAndScales) {
  const std::vector<float> x{3, 4, 0, 0}, scale{1, 2, 3, -1};  // mean square 25 / 4
  const Array<float, 2> y({1, 4});
  rms_norm({rows_view(x, 1), vector_of(scale), 0.0f, y});
  EXPECT_FLOAT_EQ(y.view()(0, 0), 1.2f);
  EXPECT_FLOAT_EQ(y.view()(0, 1), 3.2f);
  EXPECT_EQ(y.view()(0, 2), 0.0f);
}

TEST(RmsNorm, EpsilonIsAddedToTheMeanSquareAndNotToTheRoot) {
  const std::vector<float> x{1, 1}, scale{1, 1};
  const Array<float, 2> y({1, 2});
  rms_norm({rows_view(x, 1), vector_of(scale), 3.0f, y});
  EXPECT_FLOAT_EQ(y.view()(0, 0), 0.5f);  // 1 / sqrt(1 + 3)
}

TEST(RmsNorm, EveryRowHasItsOwnMean) {
  const std::vector<float> x{2, 2, 10, 10}, scale{1, 1};
  const Array<float, 2> y({2, 2});
  rms_norm({rows_view(x, 2), vector_of(scale), 0.0f, y});
  EXPECT_FLOAT_EQ(y.view()(0, 0), 1);
  EXPECT_FLOAT_EQ(y.view()(1, 0), 1);
}

}  // namespace
}  // namespace nibble::reference
