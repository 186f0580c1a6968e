// Tests how matrices of other programs are decoded: one small matrix per layout, worked out by hand.
#include "formats/foreign_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/numbers/f16.h"

namespace nibble {
namespace {

using testing::ElementsAre;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<std::byte> halves(const std::vector<float>& values) {
  std::vector<F16> narrow;
  for (const float value : values) narrow.push_back(to_f16(value));
  return bytes_of(narrow);
}

std::vector<float> rows_of(const ForeignMatrix& matrix, size_t first, size_t count) {
  std::vector<float> values(count * matrix.cols);
  read_rows(matrix, first, values);
  return values;
}
std::vector<float> first_of(std::vector<float> values, size_t count) {
  values.resize(count);
  return values;
}

constexpr uint8_t kOne{0x38}, kTwo{0x40};  // E4M3

TEST(ForeignMatrix, AnNvfp4ValueIsCodeTimesScaleTimesFactor) {
  std::vector<uint8_t> codes(16, 0);
  codes[0] = 0x21;  // row 0: 0.5, then 1
  codes[8] = 0x9F;  // row 1: -6, then -0.5
  const auto stored = bytes_of(codes), scales = bytes_of(std::vector<uint8_t>{kOne, kTwo});
  const ForeignMatrix matrix{.layout = ForeignLayout::kNvfp4,
                             .rows = 2,
                             .cols = 16,
                             .codes = stored.data(),
                             .scales = scales.data(),
                             .factor = 0.25F};
  EXPECT_THAT(first_of(rows_of(matrix, 0, 1), 3), ElementsAre(0.125F, 0.25F, 0.F));
  EXPECT_THAT(first_of(rows_of(matrix, 1, 1), 3), ElementsAre(-3.F, -0.25F, 0.F));
  EXPECT_EQ(stored_bytes(matrix), 16u + 2u);
}

TEST(ForeignMatrix, ModelOptsExpertsHaveTheirRowsSideBySide) {
  std::vector<uint8_t> codes(16, 0);  // [cols / 2, 2]
  codes[0] = 0x21;
  codes[1] = 0x43;   // row 1: 1.5, then 2
  codes[15] = 0x70;  // row 1, column 15: 6
  const auto stored = bytes_of(codes), scales = bytes_of(std::vector<uint8_t>{kOne, kTwo});
  const ForeignMatrix matrix{.layout = ForeignLayout::kNvfp4Columns,
                             .rows = 2,
                             .cols = 16,
                             .codes = stored.data(),
                             .scales = scales.data()};
  EXPECT_THAT(first_of(rows_of(matrix, 0, 2), 3), ElementsAre(0.5F, 1.F, 0.F));
  const std::vector<float> second = rows_of(matrix, 1, 1);
  EXPECT_THAT(first_of(second, 3), ElementsAre(3.F, 4.F, 0.F));
  EXPECT_EQ(second[15], 12.F);
}

TEST(ForeignMatrix, GgmlsNvfp4HasAFactorOfItsOwn) {
  std::vector<uint8_t> block(36, 0);
  block[0] = kTwo;
  block[4] = 0x21;  // elements 0 and 8
  const auto stored = bytes_of(block);
  const ForeignMatrix matrix{
      .layout = ForeignLayout::kNvfp4Blocks, .rows = 1, .cols = 64, .codes = stored.data(), .factor = 3};
  const std::vector<float> values = rows_of(matrix, 0, 1);
  EXPECT_EQ(values[0], 3.F);
  EXPECT_EQ(values[8], 6.F);
  EXPECT_EQ(stored_bytes(matrix), 36u);
}

TEST(ForeignMatrix, MlxAddsAnOffsetToEachGroup) {
  const auto nibbles = bytes_of(std::vector<uint8_t>{0x10, 0xF2, 0x10, 0xF2});
  const auto whole = bytes_of(std::vector<uint8_t>{0, 255, 1, 2, 3, 4, 5, 6});
  const auto scales = halves({0.5F, 2}), offsets = halves({-1, 1});
  ForeignMatrix matrix{.layout = ForeignLayout::kMlx4,
                       .rows = 1,
                       .cols = 8,
                       .codes = nibbles.data(),
                       .scales = scales.data(),
                       .zeros = offsets.data(),
                       .group = 4,
                       .num_groups = 2};
  EXPECT_THAT(rows_of(matrix, 0, 1), ElementsAre(-1.F, -0.5F, 0.F, 6.5F, 1.F, 3.F, 5.F, 31.F));
  EXPECT_EQ(stored_bytes(matrix), 4u + 8u);
  matrix.layout = ForeignLayout::kMlx8;
  matrix.codes = whole.data();
  EXPECT_THAT(rows_of(matrix, 0, 1), ElementsAre(-1.F, 126.5F, -0.5F, 0.F, 7.F, 9.F, 11.F, 13.F));
  EXPECT_EQ(name(matrix), "MLX 8-bit");
}

TEST(ForeignMatrix, AwqInterleavesTheRowsOfAWord) {
  const auto words = bytes_of(std::vector<uint32_t>{0x76543210, 0x76543210}),  // columns 0 and 1
      zeros = bytes_of(std::vector<uint32_t>{0x11111111, 0x22222222}),
             scales = halves(std::vector<float>(16, 2));
  const ForeignMatrix matrix{.layout = ForeignLayout::kAwq,
                             .rows = 8,
                             .cols = 2,
                             .codes = words.data(),
                             .scales = scales.data(),
                             .zeros = zeros.data(),
                             .group = 1,
                             .num_groups = 2};
  // Nibbles 0 to 7 are rows 0, 2, 4, 6, 1, 3, 5, 7: row 1 has the code 4.
  EXPECT_THAT(rows_of(matrix, 0, 3), ElementsAre(-2.F, -4.F, 6.F, 4.F, 0.F, -2.F));
  EXPECT_THAT(rows_of(matrix, 7, 1), ElementsAre(12.F, 10.F));
}

TEST(ForeignMatrix, GptqStoresColumnsInAWordAndZeroPointsLessOne) {
  const std::vector<uint32_t> word(8, 0x76543210);  // one word in each of 8 rows: column i has code i
  const auto words = bytes_of(word), zeros = bytes_of(std::vector<uint32_t>{0x77777777, 0xFFFFFFFF});
  std::vector<float> scale(8, 1);
  scale.resize(16, 10);
  const auto scales = halves(scale);
  const std::vector<int32_t> group_of{0, 1, 0, 0, 0, 0, 0, 1};
  ForeignMatrix matrix{.layout = ForeignLayout::kGptq,
                       .rows = 8,
                       .cols = 8,
                       .codes = words.data(),
                       .scales = scales.data(),
                       .zeros = zeros.data(),
                       .group_of = group_of.data(),
                       .group = 4,
                       .num_groups = 2,
                       .zero_offset = 1};
  // The stored zero points 7 and 15 mean 8 and 0: the offset 1 is added, and 15 + 1 wraps to 0.
  EXPECT_THAT(rows_of(matrix, 5, 1), ElementsAre(-8.F, 10.F, -6.F, -5.F, -4.F, -3.F, -2.F, 70.F));
  matrix.zero_offset = 0;
  matrix.group_of = nullptr;
  EXPECT_THAT(rows_of(matrix, 0, 1), ElementsAre(-7.F, -6.F, -5.F, -4.F, -110.F, -100.F, -90.F, -80.F));
}

TEST(ForeignMatrix, Int4IsSymmetricAroundEightUnlessZeroPointsAreStored) {
  const auto words = bytes_of(std::vector<uint32_t>(8, 0x76543210)),
             scales = halves(std::vector<float>(16, 1)),
             zeros =
                 bytes_of(std::vector<uint32_t>{0x00000030, 0x00000000});  // [1, 2 groups]: row 1 has 3, 0
  ForeignMatrix matrix{.layout = ForeignLayout::kInt4,
                       .rows = 8,
                       .cols = 8,
                       .codes = words.data(),
                       .scales = scales.data(),
                       .group = 4,
                       .num_groups = 2};
  EXPECT_THAT(rows_of(matrix, 1, 1), ElementsAre(-8.F, -7.F, -6.F, -5.F, -4.F, -3.F, -2.F, -1.F));
  EXPECT_EQ(stored_bytes(matrix), 32u + 32u);
  matrix.zeros = zeros.data();
  EXPECT_THAT(rows_of(matrix, 1, 1), ElementsAre(-3.F, -2.F, -1.F, 0.F, 4.F, 5.F, 6.F, 7.F));
  EXPECT_EQ(stored_bytes(matrix), 32u + 32u + 8u);
}

TEST(ForeignMatrix, Fp8HasAScalePerRowOrOne) {
  const auto codes = bytes_of(std::vector<uint8_t>{kOne, kTwo, kOne, 0xB8});
  const auto scales = bytes_of(std::vector<float>{0.5F, 3});
  ForeignMatrix matrix{.layout = ForeignLayout::kFp8,
                       .rows = 2,
                       .cols = 2,
                       .codes = codes.data(),
                       .scales = scales.data(),
                       .scale_dtype = DType::kF32};
  EXPECT_THAT(rows_of(matrix, 0, 2), ElementsAre(0.5F, 1.F, 3.F, -3.F));
  matrix.has_row_scales = false;
  EXPECT_THAT(rows_of(matrix, 1, 1), ElementsAre(0.5F, -0.5F));
}

}  // namespace
}  // namespace nibble
