#include "model/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "core/errors/error.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/random.h"
#include "core/program/log.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/synthetic.h"
#include "tests/error_of.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr DenseFormats kAllFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3};
constexpr DenseFormats kAllMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};

struct Row {
  float scale;
  std::vector<uint8_t> codes;
};
Row quantised(const std::vector<float>& values) {
  Row row{0, std::vector<uint8_t>(values.size())};
  row.scale = quantise_e4m3(values, row.codes);
  return row;
}

TEST(QuantiseE4m3, GivesTheLargestMagnitudeTheLargestCode) {
  const Row row = quantised({1.75f, -3.5f, 0.0f, 0.4375f});  // 3.5 / 448 = 2^-7
  EXPECT_EQ(row.scale, 0x1p-7f);
  // The codes mean 224, -448, 0 and 56 = 1.75 * 2^5: exponents 7, 8 and 5 (bias 7), and mantissas 6/8.
  EXPECT_THAT(row.codes, ElementsAre(0x76, 0xFE, 0x00, 0x66));
}

TEST(QuantiseE4m3, RoundsToTheNearestAndTiesToEven) {
  // The scale is 1. Codes between 16 and 32 are 2 apart, so 17 and 19 are ties, but 17.1 is not.
  const Row row = quantised({448.0f, 17.0f, 19.0f, 17.1f, -17.0f});
  EXPECT_EQ(row.scale, 1.0f);
  std::vector<float> values;
  for (const uint8_t code : row.codes) values.push_back(to_float(E4m3{code}));
  EXPECT_THAT(values, ElementsAre(448.0f, 16.0f, 20.0f, 18.0f, -16.0f));
}

// The error of a code is at most half a step, in units of the scale: 2^-4 of the value, or 2^-10 for values
// below 2^-6. The division adds a rounding of 2^-24.
TEST(QuantiseE4m3, IsWithinHalfAStepOfEveryValue) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> values(97);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::ldexp(2 * random_unit(seed, i) - 1, static_cast<int>(i % 17) - 20));
    const Row row = quantised(values);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(to_float(E4m3{row.codes[i]}) * row.scale, values[i],
                  std::max(std::abs(values[i]) * (0x1p-4f + 0x1p-22f), row.scale * 0x1p-10f));
  }
}

TEST(QuantiseE4m3, OfNothingButZerosTheScaleIsOne) {
  for (const float nothing : {0.0f, -0.0f, std::numeric_limits<float>::denorm_min()}) {
    const Row row = quantised({nothing, 0.0f});
    EXPECT_EQ(row.scale, 1.0f);
    EXPECT_EQ(row.codes[0] & 0x7F, 0);
    EXPECT_EQ(row.codes[1], 0);
  }
}

TEST(QuantiseE4m3, WhatIsNotFiniteShowsInTheScale) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(quantised({1.0f, -infinity, 2.0f}).scale, infinity);
  for (const auto& values :
       {std::vector{1.0f, nan, 2.0f}, std::vector{nan, infinity}, std::vector{2.0f, nan}})
    EXPECT_TRUE(std::isnan(quantised(values).scale));
}

Matrix view(const std::vector<float>& values, int rows) {
  return {rows, static_cast<int>(values.size()) / rows,
          Elements{.format = Format::kF32, .data = values.data()}};
}

TEST(Quantise, RowsAreThoseOfTheRowFunctionsFromFloat32AndFromBf16) {
  ThreadPool pool(2);
  constexpr int kRows{5}, kCols{64};
  std::vector<float> values(kRows * kCols);
  std::vector<Bf16> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    narrow[i] = to_bf16(static_cast<float>(random_unit(1, i) - 0.5));
    values[i] = to_float(narrow[i]);
  }
  for (const Matrix& from : {view(values, kRows), Matrix{kRows, kCols, Elements{.data = narrow.data()}}}) {
    const QuantisedMatrix fp8 = quantise(from, Format::kE4m3, pool);
    const QuantisedMatrix mxfp4 = quantise(from, Format::kMxfp4, pool);
    for (const Matrix& made : {fp8.matrix, mxfp4.matrix})
      EXPECT_TRUE(made.rows == kRows && made.cols == kCols);
    for (int r = 0; r < kRows; ++r) {
      const std::span<const float> row = std::span(values).subspan(static_cast<size_t>(r) * kCols, kCols);
      std::vector<uint8_t> codes(kCols), blocks(kCols / 2), scales(kCols / 32);
      EXPECT_EQ(fp8.matrix.elements().row_scales[r], quantise_e4m3(row, codes));
      EXPECT_EQ(std::memcmp(static_cast<const uint8_t*>(fp8.matrix.elements().data) + r * kCols, codes.data(),
                            kCols),
                0);
      encode_mxfp4(row, blocks, scales);
      EXPECT_EQ(std::memcmp(static_cast<const uint8_t*>(mxfp4.matrix.elements().data) + r * kCols / 2,
                            blocks.data(), blocks.size()),
                0);
      EXPECT_EQ(std::memcmp(mxfp4.matrix.elements().scales + r * kCols / 32, scales.data(), scales.size()),
                0);
    }
  }
}

TEST(QuantiseDense, ChangesTheGroupsThatAreNamedAndNothingElse) {
  ThreadPool pool(2);
  const auto weights = std::make_shared<const Weights>(make_synthetic(small_config(), "test"));
  const auto converted = quantise_dense(weights, {Format::kE4m3, Format::kBf16, Format::kMxfp4}, pool);
  EXPECT_EQ(converted->unembedding.format(), Format::kMxfp4);
  EXPECT_EQ(converted->embedding.elements().data, weights->embedding.elements().data);
  for (size_t l = 0; l < weights->layers.size(); ++l) {
    const LayerWeights &to = converted->layers[l], &from = weights->layers[l];
    for (const Matrix* matrix : {&to.q, &to.k, &to.v}) EXPECT_EQ(matrix->format(), Format::kE4m3);
    EXPECT_EQ(to.v.rows, from.v.rows);
    for (const auto& [a, b] : {std::pair(&to.o, &from.o), std::pair(&to.router, &from.router),
                               std::pair(&to.down.first, &from.down.first)}) {
      EXPECT_EQ(a->elements().data, b->elements().data);
      EXPECT_EQ(a->format(), b->format());
    }
  }
  EXPECT_EQ(quantise_dense(weights, {}, pool), weights) << "nothing to do: the same";
}

TEST(QuantiseDense, CountsItsBytesBeforehand) {
  // Each of three layers has qkv [160, 64] and o [64, 96]. lm_head is [99, 64].
  const Config config = small_config();
  const ConvertedBytes fp8 = converted_bytes(config, kAllFp8);
  EXPECT_EQ(fp8.before, 2u * (3 * (160 * 64 + 64 * 96) + 99 * 64));
  EXPECT_EQ(fp8.after, fp8.before / 2 + 4u * (3 * (160 + 64) + 99));
  EXPECT_EQ(converted_bytes(config, kAllMxfp4).after, fp8.before / 2 / 32 * 17);
  EXPECT_EQ(converted_bytes(config, {}).after, 0u);
}

TEST(QuantiseDense, RowsThatAreNoWholeBlocksAreRefusedByName) {
  ThreadPool pool(1);
  Weights weights = make_synthetic(small_config(), "test");
  weights.layers[2].o.cols = 80;
  const auto odd = std::make_shared<const Weights>(std::move(weights));
  EXPECT_THAT(error_of([&] { quantise_dense(odd, kAllMxfp4, pool); }),
              testing::AllOf(HasSubstr("o has rows of 80"), HasSubstr("--mxfp4-layers")));
  EXPECT_NO_THROW(quantise_dense(odd, kAllFp8, pool));
}

TEST(QuantiseDense, LogsALineForEachGroupWithBytesBeforeAndAfter) {
  const auto usual = spdlog::default_logger();
  std::ostringstream text;
  const auto logger =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::info);
  spdlog::set_default_logger(logger);
  ThreadPool pool(1);
  quantise_dense(std::make_shared<const Weights>(make_synthetic(small_config(), "test")),
                 {Format::kE4m3, Format::kMxfp4, Format::kE4m3}, pool);
  spdlog::set_default_logger(usual);
  EXPECT_EQ(text.str(),
            "qkv: BF16 to FP8, 61440 bytes to 32640\n"  // 3 * 160 * 64 elements, and 480 scales of 4 bytes
            "o: BF16 to MXFP4, 36864 bytes to 9792\n"
            "lm_head: BF16 to FP8, 12672 bytes to 6732\n");
}

}  // namespace
}  // namespace nibble
