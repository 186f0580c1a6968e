// Tests block_mma_twin.h, which emulates a block-scaled mma by mma.m16n8k16 on float16 numbers, against the
// lane-by-lane truth. In this test, C++ code computes mma.m16n8k16. Needs no GPU.
#include "backend/cuda/ptx/block_mma_twin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/cuda/verify/block_truth.h"
#include "core/numbers/e4m3.h"
#include "tests/backend/cuda/host/block_matrices.h"

namespace nibble::cuda::verify::test {
namespace {

double value_of_half(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
  const double magnitude = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Computes one element of the result of mma.m16n8k16 from the operands of all lanes, as the PTX ISA defines
// it.
double product_of_halves(const HalfOperands (&lanes)[32], int which, int row, int column) {
  double sum = 0;
  for (int k = 0; k < 16; ++k) {
    const int t = k % 8 / 2, shift = 16 * (k % 2);
    const uint32_t a = lanes[row % 8 * 4 + t].a[which][row / 8 + 2 * (k / 8)],
                   b = lanes[column * 4 + t].b[which][k / 8];
    sum += value_of_half(a >> shift & 0xFFFF) * value_of_half(b >> shift & 0xFFFF);
  }
  return sum;
}

double scale_of_twin(uint32_t word, int byte) {
  return std::bit_cast<float>(scale_bits(word >> 8 * byte & 0xFF));
}

// Returns the largest difference from the truth, relative to the sum of the products' magnitudes.
double worst_of_twin(BlockForm form, int a_byte, int b_byte, const WarpRegisters& registers) {
  double d[16][8]{};
  for (int block = 0; block < contraction(form) / kBlockCols; ++block) {
    HalfOperands lanes[32];
    for (int lane = 0; lane < 32; ++lane)
      lanes[lane] = half_operands(form, registers.a[lane], registers.b[lane], block);
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column)
        d[row][column] +=
            (product_of_halves(lanes, 0, row, column) + product_of_halves(lanes, 1, row, column)) *
            double{half_products_scale(form)} *
            scale_of_twin(registers.a_scale[4 * (row % 8) + row / 8], a_byte + block) *
            scale_of_twin(registers.b_scale[4 * column], b_byte + block);
  }
  const WarpProducts truth = block_truth(form, a_byte, b_byte, registers);
  double worst = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const double sum = double{registers.d[lane][i]} + d[lane / 4 + (i < 2 ? 0 : 8)][lane % 4 * 2 + i % 2];
      worst = std::max(worst, std::abs(sum - truth.d[lane][i]) / (truth.magnitudes[lane][i] + 1e-300));
    }
  return worst;
}

TEST(CudaBlockMmaTwin, AgreesWithTheTruthForEveryByteOfScales) {
  for (const BlockForm form : {BlockForm::kMxfp8, BlockForm::kMxfp4})
    for (const BlockBytePair bytes : byte_pairs(form))
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const BlockMatrices m = random_matrices(form, seed, static_cast<int>(seed));
        EXPECT_LT(worst_of_twin(form, bytes.a, bytes.b, registers_of(m, bytes.a, bytes.b, seed)), 1e-14);
      }
}

TEST(CudaBlockMmaTwin, ReadsTheSixBitsOfAContainerThatTheHardwareReads) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const TwoPairs pairs = halves_of_e2m1(byte * 0x01010101u);
    for (const uint32_t half : {pairs.even & 0xFFFF, pairs.even >> 16, pairs.odd & 0xFFFF, pairs.odd >> 16})
      EXPECT_EQ(value_of_half(half) * 0x1p14, value_of_container(byte)) << byte;
  }
}

TEST(CudaBlockMmaTwin, MakesHalvesOfEveryCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // skip NaN, which is never produced
    const TwoPairs pairs = halves_of_e4m3(code * 0x01010101u);
    for (const uint32_t half : {pairs.even & 0xFFFF, pairs.even >> 16, pairs.odd & 0xFFFF, pairs.odd >> 16})
      EXPECT_EQ(value_of_half(half) * 0x1p8, to_float(E4m3{static_cast<uint8_t>(code)})) << code;
  }
}

TEST(CudaBlockMmaTwin, KnowsTheEndsOfScales) {
  EXPECT_EQ(std::bit_cast<float>(scale_bits(0)), 0x1p-127f);
  EXPECT_EQ(std::bit_cast<float>(scale_bits(1)), 0x1p-126f);
  EXPECT_EQ(std::bit_cast<float>(scale_bits(127)), 1.0f);
  EXPECT_EQ(std::bit_cast<float>(scale_bits(254)), 0x1p127f);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(scale_bits(255))));
}

}  // namespace
}  // namespace nibble::cuda::verify::test
