#include "reference/linear.h"

#include <gtest/gtest.h>

#include "core/numbers/random.h"
#include "reference/weight_row.h"
#include "tests/reference/operands.h"

namespace nibble::reference {
namespace {

TEST(Linear, IsRowsTimesTokensPlusBias) {
  const std::vector<float> x{1, 2, 3, /**/ -1, 0, 1}, weight{1, 0, 0, /**/ 1, 1, 1}, bias{0.5f, -6};
  const Array<float, 2> y({2, 2});
  linear({rows_view(x, 2), matrix_of(weight, 2), vector_of(bias), y});
  EXPECT_EQ(y.view()(0, 0), 1.5f);
  EXPECT_EQ(y.view()(0, 1), 0.0f);
  EXPECT_EQ(y.view()(1, 0), -0.5f);
  EXPECT_EQ(y.view()(1, 1), -6.0f);
}

TEST(Linear, NeedsNoBias) {
  const std::vector<float> x{1, 2}, weight{3, 4};
  const Array<float, 2> y({1, 1});
  linear({rows_view(x, 1), matrix_of(weight, 1), {}, y});
  EXPECT_EQ(y.view()(0, 0), 11);
}

TEST(Linear, ReadsTokensThatLieApart) {
  const std::vector<float> x{1, 2, 99, /**/ 3, 4, 99}, weight{1, 10};
  View<const float, 2> without_last_column = rows_view(x, 2);
  without_last_column.shape[1] = 2;
  const Array<float, 2> y({2, 1});
  linear({without_last_column, matrix_of(weight, 1), {}, y});
  EXPECT_EQ(y.view()(0, 0), 21);
  EXPECT_EQ(y.view()(1, 0), 43);
}

TEST(Project, AddsToTheResidualStream) {
  const std::vector<float> attended{1, 2}, weight{1, 1, /**/ 2, 0}, bias{0.25f, 0};
  const Array<float, 2> x({1, 2});
  x.view()(0, 0) = 100;
  x.view()(0, 1) = 200;
  project({rows_view(attended, 1), matrix_of(weight, 2), vector_of(bias), x});
  EXPECT_EQ(x.view()(0, 0), 103.25f);
  EXPECT_EQ(x.view()(0, 1), 202);
}

TEST(WeightRow, OfBf16IsTheUpperHalfOfFloat32) {
  const std::vector<Bf16> stored{to_bf16(1), to_bf16(2), /**/ to_bf16(-0.5f), to_bf16(3)};
  float row[2];
  decode_row({2, 2, Elements{.data = stored.data()}}, 1, row);
  EXPECT_EQ(row[0], -0.5f);
  EXPECT_EQ(row[1], 3);
}

// Two rows of two blocks, all zero except the second block of the second row. The codes have the values of
// E2M1 in the OCP MX specification.
TEST(WeightRow, OfMxfp4IsEvenElementInTheLowNibbleTimesThePowerOfTwoOfItsBlock) {
  std::vector<uint8_t> codes(2 * 2 * 16), scales{127, 127, 127, 129};
  for (int i = 0; i < 8; ++i)
    codes[48 + i] = static_cast<uint8_t>((2 * i + 1) << 4 | 2 * i);  // 0x10, 0x32, ... 0xFE
  const Matrix weight{2, 64, Elements{Format::kMxfp4, codes.data(), scales.data()}};
  std::vector<float> row(64, 99.0f);
  decode_row(weight, 1, row.data());
  const float e2m1[16]{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (int i = 0; i < 32; ++i) EXPECT_EQ(row[i], 0) << i;
  for (int i = 0; i < 16; ++i) EXPECT_EQ(row[32 + i], 4 * e2m1[i]) << i;  // scale 129 is 2^2
  decode_row(weight, 0, row.data());
  for (const float element : row) EXPECT_EQ(element, 0);
}

// By OCP FP8, code 0x38 is 1, 0x01 is the smallest subnormal number, and 0xFE is -448.
TEST(WeightRow, OfFp8IsTheCodesValueTimesTheScaleOfItsRow) {
  const std::vector<uint8_t> codes{0x38, 0x38, 0x38, /**/ 0x38, 0x01, 0xFE};
  const std::vector<float> scales{0.25f, 3};
  float row[3];
  decode_row({2, 3, Elements{Format::kE4m3, codes.data(), nullptr, scales.data()}}, 1, row);
  EXPECT_EQ(row[0], 3);
  EXPECT_EQ(row[1], 3 * 0x1p-9f);
  EXPECT_EQ(row[2], -1344);
}

// A float32 sum would lose the ones: 2^24 + 1 is not a float32.
TEST(Dot, KeepsWhatFloat32WouldLose) {
  std::vector<float> a(33, 1.0f), b(33, 1.0f);
  a[0] = a[8] = 0x1p24f;
  b[8] = -1;
  EXPECT_EQ(dot(a.data(), b.data(), 33), 31);
}

TEST(Dot, OfAnyLengthIsTheSum) {
  std::vector<float> a, b;
  double expected = 0;
  for (ptrdiff_t count = 0; count < 40; ++count) {
    // Both sums stay below 16, so each of up to 39 additions rounds by at most 2^-50: together at most 7e-14.
    EXPECT_NEAR(dot(a.data(), b.data(), count), expected, 1e-13) << count;
    a.push_back(static_cast<float>(random_unit(1, static_cast<uint64_t>(count))));
    b.push_back(static_cast<float>(random_unit(2, static_cast<uint64_t>(count))));
    expected += double{a.back()} * double{b.back()};
  }
}

}  // namespace
}  // namespace nibble::reference
