#include "core/tensors/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace nibble {
namespace {

TEST(View, LastAxisIsInnermost) {
  std::vector<int> elements(2 * 3 * 4);
  std::iota(elements.begin(), elements.end(), 0);
  const View<int, 3> view(elements.data(), {2, 3, 4});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) EXPECT_EQ(view(i, j, k), (i * 3 + j) * 4 + k);
  EXPECT_EQ(view.row(1, 2), &elements[20]);
}

TEST(View, StridesLeadThroughOtherLayouts) {
  std::vector<int> elements{0, 1, 2, 3, 4, 5};
  View<int, 2> transposed(elements.data(), {3, 2});
  transposed.stride = {1, 3};
  EXPECT_EQ(transposed(0, 1), 3);
  EXPECT_EQ(transposed(2, 0), 2);
}

TEST(View, WritesWhatItLooksAtAndIsReadAsConst) {
  std::vector<int> elements(4);
  const View<int, 2> view(elements.data(), {2, 2});
  view(1, 0) = 7;
  const View<const int, 2> read_only = view;
  EXPECT_EQ(read_only(1, 0), 7);
  EXPECT_EQ(elements[2], 7);
}

}  // namespace
}  // namespace nibble
