// Tests matrices in strips: int8 activations, the layout, and every strip kernel that this machine supports.
// Results are compared with sums in double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/packed_model.h"
#include "backend/cpu/q8.h"
#include "core/numbers/f16.h"
#include "tests/backend/cpu/operands.h"
#include "tests/ops/shapes.h"

namespace nibble::cpu {
namespace {

double element(const Q8Block& block, int c) { return 2.0 * block.half_scale * block.codes[c]; }

Q8Block q8_of(const std::vector<float>& natural) { return to_q8(in_split_order(natural, kBlock).data()); }

TEST(Q8, IsOffByHalfAStepOfItsBlockAtMost) {
  for (int seed = 0; seed < 100; ++seed) {
    std::vector<float> x = random_floats(kBlock, seed);
    for (float& value : x) value = std::ldexp(value, seed - 60);
    const Q8Block block = q8_of(x);
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    int sum = 0;
    for (int c = 0; c < kBlock; ++c) {
      // Let a be the largest magnitude. Besides the rounding to a code, three float32 roundings count: of
      // 127 / a, of x times 127 / a, and of a / 254.
      ASSERT_NEAR(element(block, c), x[c], largest / 254 * (1 + 0x1p-14)) << "seed " << seed << ", " << c;
      sum += block.codes[c];
    }
    EXPECT_EQ(block.offset, -12 * sum);
    EXPECT_EQ(block.q8_0_offset, -128 * sum);
    EXPECT_EQ(std::abs(*std::max_element(block.codes, block.codes + kBlock,
                                         [](int a, int b) { return std::abs(a) < std::abs(b); })),
              127);
  }
}

TEST(Q8, RoundsTiesToEven) {
  std::vector<float> x(kBlock);
  x[0] = 127;
  for (int c = 1; c < kBlock; ++c) x[c] = static_cast<float>(c) - 16.5f;
  const Q8Block block = q8_of(x);
  for (int c = 1; c < kBlock; ++c) EXPECT_EQ(block.codes[c], std::nearbyint(x[c])) << x[c];
}

TEST(Q8, OfZerosIsZeros) {
  const Q8Block block = q8_of(std::vector<float>(kBlock));
  for (int c = 0; c < kBlock; ++c) EXPECT_EQ(element(block, c), 0);
  EXPECT_EQ(block.offset, 0);
}

TEST(Q8, ShowsWhatIsNoNumber) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()})
    for (const int place : {0, 17, 31}) {
      std::vector<float> x(kBlock, 1);
      x[place] = bad;
      EXPECT_TRUE(std::isnan(q8_of(x).half_scale)) << bad << " at " << place;
    }
}

// Returns the rows of the kernel table that this machine supports; with `format`, only rows for this format.
std::vector<StripRow> available_rows(std::optional<Format> format = std::nullopt) {
  std::vector<StripRow> rows;
  for (const StripRow& row : strip_rows())
    if (is_available(row.isa) && row.format == format.value_or(row.format)) rows.push_back(row);
  return rows;
}

class StripKernels : public testing::TestWithParam<StripRow> {
 protected:
  ThreadPool pool_{2};

  // A matrix in strips, stored after another matrix of the same shape.
  struct Operands {
    RandomMatrix weights;
    PackedMatrix packed;
    double at(ptrdiff_t row, ptrdiff_t col) const { return weights.at(packed.rows + row, col); }
  };
  Operands operands(int rows, int cols, uint64_t seed) {
    Operands made{random_matrix(GetParam().format, rows, cols, seed, 2), {}};
    made.packed = pack(made.weights.matrix, 2, GetParam().strip_rows, false, pool_);
    return made;
  }

  // Returns y [num_tokens, num_rows + 1], whose last column stays poisoned.
  static std::vector<float> run(const PackedMatrix& weights, int first_row, int num_rows,
                                const std::vector<Q8Block>& x) {
    const int row_blocks = weights.cols / kBlock;
    std::vector<const Q8Block*> rows;
    for (size_t first = 0; first < x.size(); first += row_blocks) rows.push_back(&x[first]);
    std::vector<float> y(rows.size() * (num_rows + 1), kPoison);
    GetParam().kernel({weights.codes(1), weights.scales(1), weights.cols, first_row, num_rows, rows.data(),
                       static_cast<int>(rows.size()), y.data(), num_rows + 1});
    return y;
  }
  static std::vector<Q8Block> quantised(const std::vector<float>& x) {
    std::vector<Q8Block> blocks;
    const std::vector<float> split = in_split_order(x, kBlock);
    for (size_t first = 0; first < split.size(); first += kBlock) blocks.push_back(to_q8(&split[first]));
    return blocks;
  }

  void expect_right(int num_tokens, int num_strips, int cols) {
    const int first_row = GetParam().strip_rows, num_rows = num_strips * first_row,
              num_blocks = cols / kBlock;
    const Operands weights = operands(first_row + num_rows, cols, 1);
    const std::vector<float> floats = random_floats(size_t{1} * num_tokens * cols, 3);
    const std::vector<Q8Block> x = quantised(floats);
    const std::vector<float> y = run(weights.packed, first_row, num_rows, x);
    for (int t = 0; t < num_tokens; ++t) {
      for (int r = 0; r < num_rows; ++r) {
        double sum = 0, magnitudes = 0, float_sum = 0, half_steps = 0;
        for (int b = 0; b < num_blocks; ++b) {
          const Q8Block& block = x[t * num_blocks + b];
          double block_sum = 0;
          for (int c = 0; c < kBlock; ++c) {
            const double weight = weights.at(first_row + r, b * kBlock + c);
            block_sum += weight * element(block, c);
            float_sum += weight * floats[t * cols + b * kBlock + c];
            half_steps += std::abs(weight) * block.half_scale;
          }
          sum += block_sum;
          magnitudes += std::abs(block_sum);
        }
        // The integer sum of a block is exact. Up to four kinds of rounding follow: of the product of the two
        // scales, of that product times the sum, of the addition, and of each addition of a later block.
        const double rounding = (num_blocks + 3) * 0x1p-24 * magnitudes, actual = y[t * (num_rows + 1) + r];
        const auto where = [&] {
          return fmt::format("{} tokens, {} columns: token {}, row {} of {}", num_tokens, cols, t, r,
                             num_rows);
        };
        ASSERT_NEAR(actual, sum, rounding) << where();
        // Each element is off by at most half a step of its block.
        ASSERT_NEAR(actual, float_sum, rounding + half_steps * (1 + 0x1p-14)) << where();
      }
      ASSERT_TRUE(std::isnan(y[t * (num_rows + 1) + num_rows])) << "wrote beyond row " << num_rows;
    }
  }
};
class Mxfp4StripKernels : public StripKernels {};
class Q8_0StripKernels : public StripKernels {};

std::string name_of_row(const testing::TestParamInfo<StripRow>& row) {
  std::string name = row.param.name;
  std::erase(name, ':');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, StripKernels, testing::ValuesIn(available_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(, Mxfp4StripKernels, testing::ValuesIn(available_rows(Format::kMxfp4)), name_of_row);
INSTANTIATE_TEST_SUITE_P(, Q8_0StripKernels, testing::ValuesIn(available_rows(Format::kQ8_0)), name_of_row);

TEST_P(StripKernels, AreRightForAnyNumberOfTokens) {
  for (const int num_tokens : shapes::kTokens) expect_right(num_tokens, 2, 160);
}

TEST_P(StripKernels, AreRightForAnyNumberOfStripsAndColumns) {
  for (const int cols : shapes::kBlockCols)
    for (const int num_strips : {1, 3}) expect_right(7, num_strips, cols);
}

TEST_P(StripKernels, GiveATokenTheBitsItGetsAlone) {
  const int cols = 544, strip_rows = GetParam().strip_rows, num_rows = 2 * strip_rows, num_tokens = 33;
  const Operands weights = operands(num_rows, cols, 4);
  const std::vector<Q8Block> x = quantised(random_floats(size_t{1} * num_tokens * cols, 5));
  const std::vector<float> together = run(weights.packed, 0, num_rows, x);
  for (int t = 0; t < num_tokens; ++t) {
    const auto first = x.begin() + t * (cols / kBlock);
    const std::vector<Q8Block> own(first, first + cols / kBlock);
    const std::vector<float> last_strip = run(weights.packed, strip_rows, strip_rows, own);
    for (int r = 0; r < strip_rows; ++r)
      ASSERT_EQ(together[t * (num_rows + 1) + strip_rows + r], last_strip[r]) << "token " << t << ", " << r;
  }
}

// An input of 1 in one column and 0 elsewhere returns the decoded weight w. Kernels multiply 2 w, which
// half_scale halves again, or 2 w + 12, from which `offset` subtracts 12.
TEST_P(Mxfp4StripKernels, DecodeEveryCodeUnderEveryScaleExactly) {
  const int rows = GetParam().strip_rows;
  RandomMatrix weight = random_matrix(Format::kMxfp4, rows, kBlock, 6, 2);
  for (int r = 0; r < 2 * rows; ++r)
    // Columns 0 to 15 hold codes 0 to 15, rotated by one in each row.
    for (int pair = 0; pair < 16; ++pair)
      weight.bytes[16 * r + pair] =
          static_cast<uint8_t>(((2 * pair + r) & 15) | ((2 * pair + 1 + r) & 15) << 4);
  for (int scale = 0; scale <= 252; ++scale) {  // from 253 on, 6 times the scale overflows float32
    std::fill(weight.scales.begin(), weight.scales.end(), static_cast<uint8_t>(scale));
    const PackedMatrix packed = pack(weight.matrix, 2, rows, false, pool_);
    for (int c = 0; c < kBlock; ++c) {
      Q8Block x{};
      x.codes[c] = 1;
      x.half_scale = 0.5f;
      x.offset = -12;
      const std::vector<float> y = run(packed, 0, rows, {x});
      for (int r = 0; r < rows; ++r) {
        ASSERT_EQ(weight.at(rows + r, c), kE2m1Values[(c + r + rows) & 15] * std::exp2(scale - 127));
        // The weight scales 2^-127 and 2^-126 become subnormal when they are multiplied by half_scale.
        // Results for these two scales may differ by 12 times the smallest subnormal number.
        ASSERT_NEAR(y[r], weight.at(rows + r, c), scale < 2 ? 0x1p-149 * 12 : 0)
            << "scale " << scale << ", column " << c << ", row " << r;
      }
    }
  }
  std::fill(weight.scales.begin(), weight.scales.end(), uint8_t{255});
  const std::vector<float> y =
      run(pack(weight.matrix, 2, rows, false, pool_), 0, rows, {q8_of(random_floats(kBlock, 7))});
  for (int r = 0; r < rows; ++r) EXPECT_TRUE(std::isnan(y[r])) << "E8M0 255 is NaN";
}

TEST_P(StripKernels, ShowActivationsThatAreNoNumbers) {
  const int rows = GetParam().strip_rows;
  std::vector<float> x = random_floats(96, 8);
  x[50] = std::numeric_limits<float>::infinity();
  for (const float y : run(operands(rows, 96, 9).packed, 0, rows, quantised(x))) EXPECT_TRUE(std::isnan(y));
}

// Multiplies the extreme Q8_0 weights by the smallest and largest int8 activations. Quantisers do not write
// -128, but files may hold it.
TEST_P(Q8_0StripKernels, MultiplyTheLargestBytesExactly) {
  const int rows = GetParam().strip_rows;
  RandomMatrix weight = random_matrix(Format::kQ8_0, rows, kBlock, 12, 2);
  for (const int code : {-128, -127, 127})
    for (const int sign : {-1, 1}) {
      for (int r = 0; r < 2 * rows; ++r) {
        weight.bytes[34 * r] = 0x00, weight.bytes[34 * r + 1] = 0x3C;  // 1.0 in float16
        std::fill_n(&weight.bytes[34 * r + 2], kBlock, static_cast<uint8_t>(code));
      }
      const Q8Block x = q8_of(std::vector<float>(kBlock, static_cast<float>(127 * sign)));
      const PackedMatrix packed = pack(weight.matrix, 2, rows, false, pool_);
      const std::vector<float> y = run(packed, 0, rows, {x});
      for (int r = 0; r < rows; ++r) EXPECT_EQ(y[r], static_cast<float>(32 * code * 127 * sign));
    }
}

// The scales include subnormal numbers and NaN.
TEST_P(Q8_0StripKernels, TakeEveryHalfAsAScale) {
  const int rows = GetParam().strip_rows;
  RandomMatrix weight = random_matrix(Format::kQ8_0, rows, kBlock, 13, 2);
  std::fill(weight.bytes.begin(), weight.bytes.end(), uint8_t{0});
  Q8Block x{};
  x.codes[5] = 1, x.half_scale = 0.5f, x.offset = -12, x.q8_0_offset = -128;
  for (int r = 0; r < 2 * rows; ++r) weight.bytes[34 * r + 2 + 5] = 1;
  for (uint32_t first = 0; first < 65536; first += static_cast<uint32_t>(rows)) {
    for (int r = 0; r < rows; ++r) {
      weight.bytes[34 * (rows + r)] = static_cast<uint8_t>((first + r) & 255);
      weight.bytes[34 * (rows + r) + 1] = static_cast<uint8_t>((first + r) >> 8);
    }
    const std::vector<float> y = run(pack(weight.matrix, 2, rows, false, pool_), 0, rows, {x});
    for (int r = 0; r < rows; ++r) {
      const float scale = to_float(F16{static_cast<uint16_t>(first + r)});
      if (std::isnan(scale))
        ASSERT_TRUE(std::isnan(y[r])) << first + r;
      else
        ASSERT_EQ(y[r], scale) << first + r;
    }
  }
}

// All instruction sets except the portable one use FMA, in the same order.
TEST(StripRows, GiveTheSameBitsWhereThereIsAFusedMultiplyAdd) {
  ThreadPool pool(1);
  for (const Format format : {Format::kMxfp4, Format::kQ8_0}) {
    const RandomMatrix weight = random_matrix(format, 32, 544, 10);
    const std::vector<float> split = in_split_order(random_floats(544, 11), kBlock);
    std::vector<Q8Block> x;
    for (int first = 0; first < 544; first += kBlock) x.push_back(to_q8(&split[first]));
    std::vector<std::vector<float>> results;
    for (const StripRow& row : available_rows()) {
      if (row.isa == Isa::kPortable || row.format != format) continue;
      const PackedMatrix packed = pack(weight.matrix, 1, row.strip_rows, false, pool);
      const Q8Block* rows[]{x.data()};
      results.emplace_back(32);
      row.kernel({packed.codes(0), packed.scales(0), 544, 0, 32, rows, 1, results.back().data(), 32});
      EXPECT_EQ(results.back(), results.front()) << row.name;
    }
  }
}

TEST(StripRows, AreTheBestOfAnInstructionSetOrOfOneBeforeIt) {
  EXPECT_EQ(choose_kernels(Isa::kPortable).strip(Format::kMxfp4)->isa, Isa::kPortable);
  for (const StripRow& row : available_rows()) {
    const Kernels kernels = choose_kernels(row.isa);
    EXPECT_EQ(kernels.strip(row.format, row.from_tokens)->name, row.name);
    EXPECT_EQ(kernels.strip(Format::kMxfp4)->strip_rows, kernels.strip(Format::kQ8_0)->strip_rows);
    EXPECT_EQ(kernels.strip(row.format)->from_tokens, 1);
  }
}

class Packing : public testing::Test {
 protected:
  ThreadPool pool_{2};
};

// Packing frees weights that are not shared, and leaves shared ones unchanged.
TEST_F(Packing, FreesTheExpertsOfGeneratedWeightsThatAreNotShared) {
  Weights layer_with_bytes;
  layer_with_bytes.config.num_experts = 2;
  const RandomMatrix up = random_matrix(Format::kMxfp4, 64, 32, 1, 2),
                     down = random_matrix(Format::kMxfp4, 32, 32, 2, 2);
  const std::vector<float> up_bias(128, 1), down_bias(64, 2);
  // Dense layers are not tested here.
  const Matrix no_rows{.rows = 0, .cols = 0, .stored = Elements{}};
  layer_with_bytes.embedding = layer_with_bytes.unembedding = no_rows;
  LayerWeights layer;
  layer.q = layer.k = layer.v = layer.o = layer.router = no_rows;
  layer.gate_up = experts_of(up, up_bias);
  layer.down = experts_of(down, down_bias);
  const auto bytes = std::make_shared<const int>();
  layer.experts_storage = bytes;
  layer_with_bytes.layers.push_back(layer);
  auto shared = std::make_shared<const Weights>(std::move(layer_with_bytes));
  layer.experts_storage.reset();

  const PackedModel of_shared = pack_model(shared, {}, 4, pool_);
  EXPECT_EQ(bytes.use_count(), 2) << "the other holder's";
  EXPECT_FALSE(shared->layers[0].gate_up.first.is_gone());
  const PackedModel of_own = pack_model(std::move(shared), {}, 4, pool_);
  EXPECT_EQ(bytes.use_count(), 1);
  ASSERT_EQ(of_own.layers.size(), 1u);
  EXPECT_TRUE(of_own.weights->layers[0].gate_up.first.is_gone());
  EXPECT_EQ(of_own.weights->layers[0].down.bias(1)[0], 2);
}

}  // namespace
}  // namespace nibble::cpu
