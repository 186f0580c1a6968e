// Tests experts that files store in other types than MXFP4: which format is chosen, and which values the
// converted experts have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/numbers/random.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/convert_experts.h"
#include "model/stored_experts.h"
#include "tests/error_of.h"
#include "tests/model/expanded_experts.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Hidden 64 and width 32: gate_up is square [64, 64], so only the shape of down shows whether both are
// transposed.
Config square_up_config() {
  Config config = small_config();
  config.intermediate = 32;
  return config;
}
Config square_down_config() {  // H = I, as in the released models
  Config config = small_config();
  config.intermediate = 64;
  return config;
}

std::vector<float> all_values(const Weights& weights) {
  std::vector<float> all;
  for (const LayerWeights& layer : weights.layers)
    for (const Matrix* first : {&layer.gate_up.first, &layer.down.first}) {
      const std::vector<float> values = values_of(*first, weights.config.num_experts);
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

// Rules of a backend that runs experts in `formats`. `asked`: the format of --experts.
ExpertRules rules_for(std::vector<Format> formats, std::optional<Format> asked = {}) {
  return {.asked = asked,
          .runs = [formats](Format format) { return std::ranges::count(formats, format) > 0; },
          .takes_any_blocks = false,
          .backend = "test"};
}
const std::vector<Format> kHost{Format::kMxfp4, Format::kBf16, Format::kE4m3, Format::kQ8_0};

// A checkpoint of a small model, whose experts tests expand.
class Experts : public testing::Test {
 protected:
  void make(const Config& config) {
    config_ = config;
    released_ = folder_.path() / fmt::format("released {}", ++num_made_);
    write_checkpoint(synthetic_source(config_, "synthetic"), released_);
    tensors_ = read_tensors(released_);
    original_ = open_weights(released_);
  }
  void expand(const Order& order) { expand_experts(tensors_, original_, order); }
  std::filesystem::path write() const {
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    write_checkpoint(file, tensors_, to_json(config_));
    return file;
  }
  // Opens the file that write() writes, and chooses the formats of its experts.
  Weights decided(const ExpertRules& rules) {
    Weights weights = open_weights(write());
    decide_experts(weights, rules, pool_);
    return weights;
  }
  std::shared_ptr<const Weights> converted(const ExpertRules& rules) {
    return convert_experts(std::make_shared<const Weights>(decided(rules)), pool_);
  }
  OwnedTensor& tensor(int layer, const std::string& name) {
    return tensors_.at(fmt::format("model.layers.{}.mlp.experts.{}", layer, name));
  }

  const TestFolder folder_;
  int num_made_{0};
  std::filesystem::path released_;
  Config config_;
  OwnedTensors tensors_;
  Weights original_;
  ThreadPool pool_{2};
};

TEST_F(Experts, ThatWereExpandedBecomeTheSameNumbersInMxfp4AgainWithoutAFlag) {
  for (const Config& config : {small_config(), square_up_config(), square_down_config()}) {
    make(config);
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32})
      for (const bool is_transposed : {true, false}) {
        expand({dtype, is_transposed});
        const Weights weights = decided(rules_for({Format::kMxfp4}));
        EXPECT_EQ(describe_experts(weights), fmt::format("{} in the file, exactly MXFP4", dtype));
        const auto made = convert_experts(std::make_shared<const Weights>(weights), pool_);
        EXPECT_EQ(made->layers[1].down.first.format(), Format::kMxfp4);
        EXPECT_EQ(all_values(*made), all_values(original_))
            << name(dtype) << is_transposed << config.intermediate;
      }
  }
}

TEST_F(Experts, InATensorEachAreReadAsUnslothWritesThem) {
  make(small_config());
  expand({DType::kBf16, false});
  for (int n = 0; n < config_.num_layers; ++n)
    for (const std::string matrix : {"gate_up_proj", "down_proj"}) {
      const std::string name = fmt::format("model.layers.{}.mlp.experts.{}", n, matrix);
      const OwnedTensor all = tensors_.at(name);
      const auto bytes = static_cast<ptrdiff_t>(all.bytes.size() / 5);
      for (int e = 0; e < 5; ++e)
        tensors_[fmt::format("{}s.{}.weight", name, e)] = {
            all.dtype,
            {all.shape[1], all.shape[2]},
            {all.bytes.begin() + e * bytes, all.bytes.begin() + (e + 1) * bytes}};
      tensors_.erase(name);
    }
  EXPECT_EQ(all_values(*converted(rules_for({Format::kMxfp4}))), all_values(original_));
  EXPECT_EQ(all_values(*converted(rules_for(kHost, Format::kBf16))), all_values(original_));
  tensor(2, "down_projs.3.weight").shape = {96, 64};
  EXPECT_THAT(error_of([&] { open_weights(write()); }),
              HasSubstr("experts.down_projs.3.weight' is BF16 [96, 64]; expected BF16, F16 or F32 [64, 96]"));
  tensors_.erase("model.layers.2.mlp.experts.down_projs.3.weight");
  EXPECT_THAT(error_of([&] { open_weights(write()); }), HasSubstr("down_projs.3.weight' is missing, but"));
}

TEST_F(Experts, OfAFineTuneKeepTheirTypeWhereTheBackendRunsIt) {
  for (const bool is_transposed : {true, false}) {
    make(small_config());
    expand({DType::kBf16, is_transposed});
    tensor(1, "down_proj").bytes[1] = std::byte{0x41};  // 0x41xx: between 8 and 32
    tensor(1, "down_proj").bytes[0] = std::byte{0x23};  // with a mantissa that E2M1 lacks
    const auto weights = converted(rules_for(kHost));
    EXPECT_EQ(describe_experts(decided(rules_for(kHost))),
              "BF16 in the file, exactly MXFP4; BF16 in the file");
    EXPECT_EQ(weights->layers[1].gate_up.first.format(), Format::kMxfp4);
    EXPECT_EQ(weights->layers[1].down.first.format(), Format::kBf16);
    std::vector<float> expected = values_of(original_.layers[1].down.first, config_.num_experts);
    expected[0] = 10.1875F;  // 0x4123 in BF16
    EXPECT_EQ(values_of(weights->layers[1].down.first, config_.num_experts), expected);
  }
}

TEST_F(Experts, ThatABackendDoesNotRunAreRefusedInOneLineThatNamesTheOptions) {
  make(small_config());
  expand({DType::kF16, true});
  tensor(2, "gate_up_proj").bytes[0] = std::byte{0x23};
  const std::string error = error_of([&] { decided(rules_for({Format::kMxfp4, Format::kBf16})); });
  EXPECT_THAT(error,
              AllOf(HasSubstr("model.safetensors: the experts are F16 and not exactly MXFP4"),
                    HasSubstr("the test backend"), HasSubstr("--experts mxfp4 (147 kB), bf16 (553 kB)"),
                    Not(HasSubstr("fp8")), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of([&] { decided(rules_for({Format::kMxfp4}, Format::kBf16)); }),
              HasSubstr("--experts: the test backend does not run experts in BF16; it runs mxfp4 (147 kB)"));
}

TEST_F(Experts, ThatABackendDoesNotRunGetTheFormatThatIsNamedForThemInstead) {
  make(small_config());
  expand({DType::kF16, true});
  tensor(2, "gate_up_proj").bytes[0] = std::byte{0x23};
  ExpertRules rules = rules_for({Format::kMxfp4, Format::kBf16});
  rules.otherwise = Format::kBf16;
  const Weights weights = decided(rules);
  EXPECT_EQ(weights.layers[2].gate_up.first.format(), Format::kBf16);
  EXPECT_EQ(weights.layers[2].down.first.format(), Format::kMxfp4) << "it is exact";
  EXPECT_EQ(weights.layers[1].gate_up.first.format(), Format::kMxfp4) << "it is exact";
}

TEST_F(Experts, InTheFormatThatIsAskedForAreAsNearAsItsRounding) {
  make(small_config());
  for (const Format format : kHost) {  // the file holds MXFP4
    Weights weights = open_weights(released_);
    decide_experts(weights, rules_for(kHost, format), pool_);
    const auto made = convert_experts(std::make_shared<const Weights>(weights), pool_);
    EXPECT_EQ(made->layers[0].gate_up.first.format(), format);
    const std::vector<float> from = all_values(original_), to = all_values(*made);
    const size_t first_down = static_cast<size_t>(config_.num_experts) * 192 * 64;
    for (size_t i = 0; i < first_down; i += 64) {  // a row of gate_up of layer 0
      float largest = 0;
      for (size_t c = i; c < i + 64; ++c) largest = std::max(largest, std::abs(from[c]));
      // Half a step: for Q8_0, 1/254 of a block's largest value; for FP8, 2^-4 of the value, or 2^-18.8 of
      // the row's largest value for subnormal codes. BF16 holds MXFP4 exactly.
      const float step = format == Format::kQ8_0 ? largest / 254 * 1.01F : 0;
      for (size_t c = i; c < i + 64; ++c)
        ASSERT_NEAR(to[c], from[c],
                    format == Format::kE4m3 ? std::abs(from[c]) / 16 * 1.01F + largest * 0x1p-18F : step)
            << name(format);
    }
  }
}

TEST_F(Experts, RoundedToMxfp4HaveTheCodesOfTheSpecificationsRule) {
  make(small_config());
  expand({DType::kF32, true});
  for (size_t i = 0; i < tensor(0, "down_proj").bytes.size(); i += 4) {
    const auto value = static_cast<float>(random_unit(5, i) - 0.5);
    std::memcpy(&tensor(0, "down_proj").bytes[i], &value, 4);
  }
  const Weights weights = decided(rules_for({Format::kMxfp4}, Format::kMxfp4));
  EXPECT_THAT(describe_experts(weights), HasSubstr("F32 in the file, rounded to MXFP4"));
  const auto made = convert_experts(std::make_shared<const Weights>(weights), pool_);
  // The file stores [E, I, H], so row r of expert e is column r in the file.
  std::vector<float> row(96);
  for (size_t c = 0; c < row.size(); ++c)
    std::memcpy(&row[c], &tensor(0, "down_proj").bytes[4 * ((3 * 96 + c) * 64 + 17)], 4);
  std::vector<uint8_t> codes(48), scales(3);
  encode_mxfp4(row, codes, scales);
  const Matrix third = made->layers[0].down.matrix(3);
  const Elements& elements = third.elements();
  EXPECT_EQ(std::memcmp(static_cast<const uint8_t*>(elements.data) + 17 * 48, codes.data(), 48), 0);
  EXPECT_EQ(std::memcmp(elements.scales + 17 * 3, scales.data(), 3), 0);
}

TEST_F(Experts, OfWrongShapeOrTypeAreRefusedWithWhatFits) {
  make(small_config());
  expand({DType::kBf16, true});
  const OwnedTensor good = tensor(1, "gate_up_proj");
  tensor(1, "gate_up_proj").shape = {5, 32, 384};
  EXPECT_THAT(error_of([&] { open_weights(write()); }),
              AllOf(HasSubstr("'model.layers.1.mlp.experts.gate_up_proj' is BF16 [5, 32, 384]"),
                    HasSubstr("F32 [5, 64, 192], or [5, 192, 64] if not transposed")));
  tensor(1, "gate_up_proj") = good;
  tensor(1, "gate_up_proj").dtype = DType::kI16;
  EXPECT_THAT(error_of([&] { open_weights(write()); }), HasSubstr("gate_up_proj' is I16"));
}

TEST_F(Experts, AreWrittenInMxfp4IfTheyAreExactOrMayBeRounded) {
  make(small_config());
  expand({DType::kBf16, true});
  const TensorSource exact = open_source(write());
  Buffer room;
  size_t num_tensors = 0;
  for (const TensorSpec& spec : tensor_specs(config_)) {
    const StoredTensor read = exact.read(spec, room);
    EXPECT_EQ(read.dtype, exact.dtype(spec));
    if (spec.kind != TensorKind::kCodes) continue;
    ++num_tensors;
    Buffer scale_room;
    TensorSpec scales = spec;
    scales.kind = TensorKind::kScales;
    scales.name.replace(scales.name.find("_blocks"), 7, "_scales");
    scales.shape.pop_back();
    scales.num_bytes /= 16;
    const StoredTensor of_scales = exact.read(scales, scale_room);
    const Matrix made{static_cast<int>(spec.shape[1]), static_cast<int>(spec.shape[2] * 32),
                      Elements{Format::kMxfp4, read.data, static_cast<const uint8_t*>(of_scales.data)}};
    const LayerWeights& layer = original_.layers[num_tensors <= 2 ? 0 : num_tensors <= 4 ? 1 : 2];
    const Matrix& first = spec.name.ends_with("down_proj_blocks") ? layer.down.first : layer.gate_up.first;
    EXPECT_EQ(values_of(made, config_.num_experts), values_of(first, config_.num_experts)) << spec.name;
  }
  EXPECT_EQ(num_tensors, 6u);
  tensor(1, "down_proj").bytes[0] = std::byte{0x23};
  tensor(1, "down_proj").bytes[1] = std::byte{0x41};
  EXPECT_THAT(
      error_of([&] { open_source(write()); }),
      HasSubstr("the experts are BF16 and not exactly MXFP4, the only type that nibble writes: round"));
  EXPECT_EQ(error_of([&] { open_source(write(), ExpertRounding::kToMxfp4); }), "accepted");
}

// gate and up are two tensors of different types in a GGUF file; the rows of the result alternate between
// them.
TEST(StoredExperts, OfTwoTensorsAlternateTheirRowsWhateverTheirTypes) {
  constexpr int kRows{68}, kCols{64}, kExperts{3};
  const size_t half = size_t{kRows} / 2 * kCols * kExperts;
  std::vector<float> values(2 * half), even(half), odd(half);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random_unit(3, i) - 0.5);
    const size_t row = i / kCols;
    (row % 2 == 0 ? even : odd)[row / 2 * kCols + i % kCols] = values[i];
  }
  std::vector<std::byte> q8_0(half / 32 * 34);
  quantise_q8_0(even, q8_0);
  StoredExperts stored{.rows = {.type = GgmlType::kQ8_0,
                                .experts = consecutive(q8_0.data(), q8_0.size() / kExperts, kExperts)}};
  stored.odd_rows =
      ExpertTensor{.type = GgmlType::kF32, .experts = consecutive(odd.data(), half / kExperts * 4, kExperts)};
  EXPECT_EQ(type_name(stored), "Q8_0 and F32");
  const Matrix first{kRows, kCols, {}};
  EXPECT_FALSE(as_blocks(stored, first));
  std::vector<float> rounded(half), got(size_t{4} * kCols);
  dequantise(GgmlType::kQ8_0, q8_0, rounded);
  read_rows(stored, first, {.expert = 2, .first_row = 64, .count = 4}, got);
  const size_t base = (size_t{2} * kRows / 2 + 32) * kCols;  // row 32 of expert 2, in gate and in up
  for (size_t c = 0; c < kCols; ++c) {
    EXPECT_EQ(got[c], rounded[base + c]);
    EXPECT_EQ(got[kCols + c], odd[base + c]);
    EXPECT_EQ(got[2 * kCols + c], rounded[base + kCols + c]);
    EXPECT_EQ(got[3 * kCols + c], odd[base + kCols + c]);
  }
}

}  // namespace
}  // namespace nibble
