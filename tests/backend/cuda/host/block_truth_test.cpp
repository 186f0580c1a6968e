// Compares block_truth(), which computes a block-scaled mma lane by lane, with a plain matrix multiplication.
// Needs no GPU.
#include "backend/cuda/verify/block_truth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/e8m0.h"
#include "tests/backend/cuda/host/block_matrices.h"

namespace nibble::cuda::verify::test {
namespace {

constexpr BlockForm kForms[]{BlockForm::kMxfp8, BlockForm::kMxfp4};

double product(const BlockMatrices& m, int row, int column) {
  double sum = m.d[row][column];
  for (int k = 0; k < m.cols(); ++k) {
    const double b =
        m.form == BlockForm::kMxfp8 ? to_float(E4m3{m.b[column][k]}) : to_float(E2m1{m.b[column][k]});
    sum += double{to_float(E2m1{m.a[row][k]})} * b * double{to_float(E8m0{m.a_scale[row][k / 32]})} *
           double{to_float(E8m0{m.b_scale[column][k / 32]})};
  }
  return sum;
}

// Returns the largest difference, relative to the sum of the products' magnitudes.
double worst_difference(const BlockMatrices& m, const WarpProducts& products) {
  double worst = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
      const double error = std::abs(products.d[lane][i] - product(m, row, column));
      worst = std::max(worst, error / (products.magnitudes[lane][i] + 1e-300));
    }
  return worst;
}

TEST(CudaBlockTruth, IsTheProductOfMatricesForEveryByteOfScales) {
  for (const BlockForm form : kForms)
    for (const BlockBytePair bytes : byte_pairs(form))
      for (uint64_t seed = 0; seed < 16; ++seed) {
        const BlockMatrices m = random_matrices(form, seed, static_cast<int>(seed % 8));
        const WarpRegisters registers = registers_of(m, bytes.a, bytes.b, seed);
        EXPECT_LT(worst_difference(m, block_truth(form, bytes.a, bytes.b, registers)), 1e-14)
            << bytes.a << ", " << bytes.b;
      }
}

TEST(CudaBlockTruth, KnowsEveryCodeAndTheEndsOfScales) {
  for (const BlockForm form : kForms) {
    const int num_b_codes = form == BlockForm::kMxfp8 ? 256 : 16;
    for (int code = 0; code < num_b_codes; ++code) {
      if (form == BlockForm::kMxfp8 && (code & 0x7F) == 0x7F) continue;  // skips NaN
      BlockMatrices m{form};
      for (int k = 0; k < m.cols(); ++k) {
        for (auto& row : m.a) row[k] = static_cast<uint8_t>(code % 16);
        for (auto& column : m.b) column[k] = static_cast<uint8_t>(code);
      }
      for (auto& row : m.a_scale) row[0] = row[1] = static_cast<uint8_t>(code % 2 == 0 ? 254 : 0);
      for (auto& column : m.b_scale) column[0] = column[1] = static_cast<uint8_t>(code % 2 == 0 ? 1 : 253);
      EXPECT_EQ(worst_difference(m, block_truth(form, 0, 0, registers_of(m, 0, 0, 1))), 0) << code;
    }
  }
}

TEST(CudaBlockTruth, IsNanWhereTheScaleIs) {
  for (const BlockForm form : kForms) {
    BlockMatrices m = random_matrices(form, 1, 2);
    m.a_scale[9][m.cols() / 32 - 1] = 255;
    const WarpProducts products = block_truth(form, 0, 0, registers_of(m, 0, 0, 1));
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(std::isnan(products.d[lane][i]), lane / 4 == 1 && i >= 2) << lane << ", " << i;
  }
}

// A comparison with the truth must notice scales that come from another lane.
TEST(CudaBlockTruth, NoticesScalesThatAnotherLaneSays) {
  for (const BlockForm form : kForms) {
    const BlockMatrices m = random_matrices(form, 3, 4);
    const WarpRegisters right = registers_of(m, 0, 0, 3);
    WarpRegisters a_is_wrong = right, b_is_wrong = right;
    std::rotate(a_is_wrong.a_scale, a_is_wrong.a_scale + 1, a_is_wrong.a_scale + 32);
    std::rotate(b_is_wrong.b_scale, b_is_wrong.b_scale + 1, b_is_wrong.b_scale + 32);
    EXPECT_GT(worst_difference(m, block_truth(form, 0, 0, a_is_wrong)), 0.1);
    EXPECT_GT(worst_difference(m, block_truth(form, 0, 0, b_is_wrong)), 0.1);
  }
}

TEST(CudaBlockTruth, NoticesTheWrongByteOfScales) {
  for (const BlockForm form : kForms) {
    const BlockMatrices m = random_matrices(form, 4, 4);
    const WarpRegisters registers = registers_of(m, 0, 0, 4);
    const int other = form == BlockForm::kMxfp8 ? 1 : 2;
    EXPECT_GT(worst_difference(m, block_truth(form, other, 0, registers)), 0.1);
    EXPECT_GT(worst_difference(m, block_truth(form, 0, other, registers)), 0.1);
  }
}

TEST(CudaBlockTruth, NoticesANibbleThatWasNotShiftedToItsPlace) {
  const BlockMatrices m = random_matrices(BlockForm::kMxfp8, 5, 0);
  WarpRegisters registers = registers_of(m, 0, 0, 5);
  for (auto& lane : registers.a)
    for (uint32_t& word : lane) word >>= 2;
  EXPECT_GT(worst_difference(m, block_truth(BlockForm::kMxfp8, 0, 0, registers)), 0.1);
}

TEST(CudaBlockTruth, AContainerHoldsSixBits) {
  for (uint32_t code = 0; code < 16; ++code) {
    EXPECT_EQ(value_of_container(code << 2), to_float(E2m1{static_cast<uint8_t>(code)})) << code;
    // A container with the code in bits 2-0, not shifted, has the value code / 8.
    if (code < 8) {
      EXPECT_EQ(value_of_container(code), code / 8.0) << code;
    }
  }
}

}  // namespace
}  // namespace nibble::cuda::verify::test
