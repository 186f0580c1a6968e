// Compares every row of the kernel table that this machine supports with sums in double, on edge shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/kernel_table.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/operands.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

// Returns the rows of a table that this machine supports, and only rows for `formats` if given.
template <typename Row>
std::vector<Row> available(std::span<const Row> table, const std::vector<Format>& formats = {}) {
  std::vector<Row> rows;
  std::copy_if(table.begin(), table.end(), std::back_inserter(rows), [&](const Row& row) {
    const bool is_wanted = formats.empty() || std::count(formats.begin(), formats.end(), row.format) > 0;
    return is_available(row.isa) && is_wanted;
  });
  return rows;
}
// Removes colons, which GoogleTest does not allow in names.
std::string test_name(std::string kernel) {
  std::erase(kernel, ':');
  return kernel;
}

// The error of a float32 sum of n products in vectors of at least 4 lanes is at most 2 (n / 4 + 6) 2^-24 of
// the sum of the products' magnitudes. Each lane adds n / 4 products, and adding the lanes takes a few more
// additions. The factor of 2 counts two roundings per addition, of the product and of the sum, for
// instruction sets without FMA (Higham: Accuracy and Stability of Numerical Algorithms, 4.2).
double sum_tolerance(int num_products, double sum_of_magnitudes) {
  return 2 * (num_products / 4.0 + 6) * 0x1p-24 * sum_of_magnitudes;
}

std::vector<const float*> row_pointers(const std::vector<float>& values, ptrdiff_t width) {
  std::vector<const float*> rows;
  for (ptrdiff_t first = 0; first < std::ssize(values); first += width) rows.push_back(&values[first]);
  return rows;
}

class DotKernels : public testing::TestWithParam<DotRow> {
 protected:
  // Returns y [num_tokens, num_rows + 1], whose last column stays poisoned.
  std::vector<float> run(const Matrix& weight, int first_row, int num_rows,
                         const std::vector<float>& x) const {
    const std::vector<const float*> rows = row_pointers(x, padded(weight.cols));
    std::vector<float> y(rows.size() * (num_rows + 1), kPoison);
    const Elements& elements = weight.elements();
    GetParam().kernel({elements.data, elements.scales, elements.row_scales, weight.cols, first_row, num_rows,
                       rows.data(), static_cast<int>(rows.size()), y.data(), num_rows + 1});
    return y;
  }

  void expect_right(int num_tokens, int num_rows, int cols) const {
    const int first_row = 2;
    const RandomMatrix weight = random_matrix(GetParam().format, first_row + num_rows, cols, 1);
    const std::vector<float> x = random_floats(size_t{1} * num_tokens * cols, 3);
    const std::vector<float> y = run(weight.matrix, first_row, num_rows, in_split_order(x, cols));
    for (int t = 0; t < num_tokens; ++t) {
      for (int r = 0; r < num_rows; ++r) {
        double sum = 0, magnitudes = 0;
        for (int c = 0; c < cols; ++c) {
          const double product = weight.at(first_row + r, c) * x[t * cols + c];
          sum += product;
          magnitudes += std::abs(product);
        }
        ASSERT_NEAR(y[t * (num_rows + 1) + r], sum, sum_tolerance(cols, magnitudes))
            << num_tokens << " tokens, " << cols << " columns: token " << t << ", row " << r << " of "
            << num_rows;
      }
      ASSERT_TRUE(std::isnan(y[t * (num_rows + 1) + num_rows])) << "wrote beyond row " << num_rows;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, DotKernels, testing::ValuesIn(available(dot_rows())),
                         [](const auto& row) { return test_name(row.param.name); });
class ElementDotKernels : public DotKernels {};  // tests of the formats without blocks
INSTANTIATE_TEST_SUITE_P(, ElementDotKernels,
                         testing::ValuesIn(available(dot_rows(), {Format::kBf16, Format::kE4m3})),
                         [](const auto& row) { return test_name(row.param.name); });
class E4m3DotKernels : public DotKernels {};
INSTANTIATE_TEST_SUITE_P(, E4m3DotKernels, testing::ValuesIn(available(dot_rows(), {Format::kE4m3})),
                         [](const auto& row) { return test_name(row.param.name); });
class Mxfp4DotKernels : public DotKernels {};
INSTANTIATE_TEST_SUITE_P(, Mxfp4DotKernels, testing::ValuesIn(available(dot_rows(), {Format::kMxfp4})),
                         [](const auto& row) { return test_name(row.param.name); });

TEST_P(DotKernels, AreRightForAnyNumberOfTokens) {
  for (const int num_tokens : shapes::kTokens) expect_right(num_tokens, 5, 160);
}

TEST_P(DotKernels, AreRightForAnyNumberOfRowsAndColumns) {
  for (const int cols : shapes::kBlockCols)
    for (const int num_rows : shapes::kRows) expect_right(7, num_rows, cols);
}

TEST_P(ElementDotKernels, TakeColumnsThatAreNoWholeBlocks) {
  for (const int cols : shapes::kOddCols)
    for (const int num_rows : shapes::kRows) expect_right(7, num_rows, cols);
}

TEST_P(DotKernels, GiveATokenTheBitsItGetsAlone) {
  const int cols = 544, num_rows = 9, num_tokens = 33;
  const RandomMatrix weight = random_matrix(GetParam().format, num_rows, cols, 4);
  const std::vector<float> x = in_split_order(random_floats(size_t{1} * num_tokens * cols, 5), cols);
  const std::vector<float> together = run(weight.matrix, 0, num_rows, x);
  for (int t = 0; t < num_tokens; ++t) {
    const std::vector<float> alone = run(weight.matrix, 0, num_rows, {&x[t * cols], &x[t * cols] + cols});
    for (int r = 0; r < num_rows; ++r) {
      ASSERT_EQ(together[t * (num_rows + 1) + r], alone[r]) << "token " << t << ", row " << r;
      ASSERT_EQ(run(weight.matrix, r, 1, {&x[t * cols], &x[t * cols] + cols})[0], alone[r]) << "row " << r;
    }
  }
}

// An input of 1 in one column and 0 elsewhere returns the decoded weight of that column.
TEST_P(Mxfp4DotKernels, DecodeEveryCodeUnderEveryScaleExactly) {
  RandomMatrix weight = random_matrix(Format::kMxfp4, 1, 32, 6);
  // Columns 0 to 15 hold codes 0 to 15, columns 16 to 31 the same codes in reverse.
  for (int pair = 0; pair < 16; ++pair)
    weight.bytes[pair] = static_cast<uint8_t>(pair < 8 ? 2 * pair | (2 * pair + 1) << 4
                                                       : (31 - 2 * pair) | (30 - 2 * pair) << 4);
  for (int scale = 0; scale <= 252; ++scale)  // from 253 on, 6 times the scale overflows float32
    for (int c = 0; c < 32; ++c) {
      weight.scales[0] = static_cast<uint8_t>(scale);
      std::vector<float> x(32);
      x[split_index(c)] = 1;
      const int code = c < 16 ? c : 31 - c;
      ASSERT_EQ(weight.at(0, c), kE2m1Values[code] * std::exp2(scale - 127));
      ASSERT_EQ(run(weight.matrix, 0, 1, x)[0], static_cast<float>(weight.at(0, c)))
          << "scale " << scale << ", code " << code;
    }
  weight.scales[0] = 255;
  EXPECT_TRUE(std::isnan(run(weight.matrix, 0, 1, std::vector<float>(32, 1))[0])) << "E8M0 255 is NaN";
}

// Each row holds one code, in its last column. Of 32 columns, the last belongs to a whole block; of 33, the
// last comes after the whole block.
TEST_P(E4m3DotKernels, DecodeEveryCodeExactly) {
  for (const int cols : {32, 33}) {
    RandomMatrix weight = random_matrix(Format::kE4m3, 256, cols, 6);
    for (int code = 0; code < 256; ++code) {
      std::fill_n(&weight.bytes[code * cols], cols, uint8_t{0});
      weight.bytes[code * cols + cols - 1] = static_cast<uint8_t>(code);
      weight.row_scales[code] = code < 100 ? 0.37f : 1;
    }
    std::vector<float> x(padded(cols));
    x[split_index(cols - 1)] = 1;
    const std::vector<float> y = run(weight.matrix, 0, 256, x);
    for (int code = 0; code < 256; ++code)
      if ((code & 127) == 127) {
        EXPECT_TRUE(std::isnan(y[code])) << "code " << code << " is NaN";
      } else {
        EXPECT_EQ(y[code], static_cast<float>(weight.at(code, cols - 1))) << "code " << code;
      }
  }
}

TEST_P(E4m3DotKernels, TakeNoRowScalesForOnes) {
  RandomMatrix weight = random_matrix(Format::kE4m3, 5, 64, 6);
  std::fill(weight.row_scales.begin(), weight.row_scales.end(), 1.0f);
  const std::vector<float> x = random_floats(64, 7), ones = run(weight.matrix, 0, 5, x);
  std::get<Elements>(weight.matrix.stored).row_scales = nullptr;
  const std::vector<float> none = run(weight.matrix, 0, 5, x);
  for (int r = 0; r < 5; ++r) EXPECT_EQ(none[r], ones[r]);
}

// AddressSanitizer detects reads beyond the end.
TEST_P(DotKernels, ReadNothingBeyondTheLastElement) {
  for (const int cols : {40, 64}) {
    if (GetParam().format == Format::kMxfp4 && cols % 32 != 0) continue;
    const RandomMatrix weight = random_matrix(GetParam().format, 3, cols, 7);
    const std::vector<float> y = run(weight.matrix, 0, 3, std::vector<float>(padded(cols), 1));
    EXPECT_FALSE(std::isnan(y[2])) << cols;
  }
}

class WeighKernels : public testing::TestWithParam<WeighRow> {};
INSTANTIATE_TEST_SUITE_P(, WeighKernels, testing::ValuesIn(available(weigh_rows())),
                         [](const auto& row) { return test_name(row.param.name); });

TEST_P(WeighKernels, AddTheWeightedValuesToWhatIsThere) {
  for (const int head_dim : {16, 32, 48, 64, 128})
    for (const int num_positions : {1, 2, 31, 32})
      for (const int num_heads : {1, 3, 4, 5, 8}) {
        RandomMatrix values = random_matrix(GetParam().format, num_positions, head_dim, 8);
        std::fill(values.row_scales.begin(), values.row_scales.end(), 1.0f);  // a KV cache has no scales
        const std::vector<float> weights = random_floats(num_heads * 32, 9);
        const std::vector<float> before = random_floats(num_heads * head_dim, 10);
        std::vector<float> out = in_split_order(before, head_dim);
        GetParam().kernel({values.matrix.elements().data, num_positions, head_dim, weights.data(), 32,
                           num_heads, out.data(), padded(head_dim)});
        for (int h = 0; h < num_heads; ++h)
          for (int d = 0; d < head_dim; ++d) {
            double sum = before[h * head_dim + d], magnitudes = std::abs(sum);
            for (int j = 0; j < num_positions; ++j) {
              const double product = values.at(j, d) * weights[h * 32 + j];
              sum += product;
              magnitudes += std::abs(product);
            }
            // The kernel adds the positions one by one.
            ASSERT_NEAR(out[h * padded(head_dim) + split_index(d)], sum,
                        2 * (num_positions + 1) * 0x1p-24 * magnitudes)
                << head_dim << " wide, " << num_positions << " positions: head " << h << " of " << num_heads
                << ", " << d;
          }
      }
}

// A row for narrower vectors would be correct but slower. Only an instruction set without float kernels of
// its own uses an earlier set's kernels.
TEST(KernelTable, GivesEveryInstructionSetTheLastRowOfEveryFormatThatItMayUse) {
  for (const Isa isa : available_isas()) {
    const Kernels kernels = choose_kernels(isa);
    for (const Format format : {Format::kBf16, Format::kE4m3, Format::kMxfp4}) {
      ASSERT_NE(kernels.dot(format), nullptr);
      EXPECT_EQ(kernels.dot(format)->format, format);
      for (const DotRow& row : available(dot_rows(), {format}))
        EXPECT_TRUE(row.isa <= kernels.dot(format)->isa || row.isa > isa) << row.name;
      EXPECT_LE(kernels.dot(format)->isa, isa);
    }
    for (const Format format : {Format::kBf16, Format::kE4m3}) {
      ASSERT_NE(kernels.weigh(format), nullptr);
      EXPECT_EQ(kernels.weigh(format)->format, format);
      EXPECT_EQ(kernels.weigh(format)->isa, kernels.dot(format)->isa);
    }
    ASSERT_NE(kernels.strip(Format::kMxfp4), nullptr);
    EXPECT_LE(kernels.strip(Format::kMxfp4)->isa, isa);
    EXPECT_EQ(kernels.dot(Format::kF32), nullptr);
    EXPECT_EQ(kernels.weigh(Format::kMxfp4), nullptr);
  }
}

// Forcing an instruction set excludes later sets.
TEST(KernelTable, UsesNothingBeyondTheRequestedInstructionSet) {
  EXPECT_EQ(choose_kernels(isa_of("portable")).dot(Format::kBf16)->kernel, &portable::dot_bf16);
  EXPECT_EQ(choose_kernels(isa_of("portable")).strip(Format::kMxfp4)->kernel, &portable::strip_mxfp4);
#if NIBBLE_X86
  if (!is_available(Isa::kAvx2)) GTEST_SKIP() << "this machine has no AVX2";
  EXPECT_EQ(choose_kernels(isa_of("avx2")).dot(Format::kBf16)->kernel, &avx2::dot_bf16);
  EXPECT_EQ(choose_kernels(isa_of("avx2")).strip(Format::kMxfp4)->kernel, &avx2::strip_mxfp4);
#endif
#if NIBBLE_AARCH64
  EXPECT_EQ(choose_kernels(isa_of("neon")).dot(Format::kBf16)->kernel, &neon::dot_bf16);
  EXPECT_EQ(choose_kernels(isa_of("neon")).strip(Format::kMxfp4)->kernel, &neon::strip_mxfp4);
#endif
}

}  // namespace
}  // namespace nibble::cpu
