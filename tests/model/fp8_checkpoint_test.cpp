// Tests checkpoints whose dense layers are FP8: which are read, and which scales are refused.
#include "tests/model/fp8_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/errors/error.h"
#include "model/check_vectors.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/shares/share_weights.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kQ{"model.layers.1.self_attn.q_proj"}, kV{"model.layers.1.self_attn.v_proj"};

// A checkpoint of the small model with BF16 matrices. Tests turn matrices into FP8, then open the file.
class Fp8Checkpoint : public testing::Test {
 protected:
  Fp8Checkpoint() {
    write_checkpoint(synthetic_source(config_, "synthetic"), folder_.path() / "hf");
    tensors_ = read_tensors(folder_.path() / "hf");
  }
  std::filesystem::path write() const {
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    write_checkpoint(file, tensors_, with_fp8_quantization(to_json(config_)));
    return file;
  }
  Weights open() const { return open_weights(write()); }
  // Returns the error of opening the checkpoint. It must be one line with the name of the file.
  std::string error_of_opening() const {
    const std::string error = error_of([&] { open(); });
    EXPECT_THAT(error, AllOf(HasSubstr("model.safetensors: "), Not(HasSubstr("\n"))));
    return error;
  }
  std::string error_with_scale(const OwnedTensor& scale) {
    tensors_[kQ + ".weight_scale"] = scale;
    return error_of_opening();
  }
  void add_scalar(const std::string& name) { tensors_[name] = float_tensor({0.5F}, {1}, DType::kF32); }

  const TestFolder folder_;
  const Config config_{small_config()};
  OwnedTensors tensors_;
};

TEST_F(Fp8Checkpoint, AScaleOfATensorBecomesTheScaleOfEachRow) {
  OwnedTensor& v = tensors_.at(kV + ".weight");
  std::vector<float> values = float_values(v);
  for (float& value : values) value /= 4;  // makes the scales of q and v different
  v = float_tensor(values, v.shape, DType::kBf16);
  for (const std::string& layer : fp8_layers(config_.num_layers))
    make_fp8(tensors_, layer, {.is_per_row = false});
  const Weights weights = open();
  const LayerWeights& layer = weights.layers[1];
  for (const auto& [name, matrix] : {std::pair(kQ, &layer.q), std::pair(kV, &layer.v),
                                     std::pair(std::string("lm_head"), &weights.unembedding)}) {
    ASSERT_EQ(matrix->format(), Format::kE4m3) << name;
    const OwnedTensor& codes = tensors_.at(name + ".weight");
    EXPECT_EQ(std::memcmp(matrix->elements().data, codes.bytes.data(), codes.bytes.size()), 0) << name;
    const float scale = float_values(tensors_.at(name + ".weight_scale")).at(0);
    for (int row = 0; row < matrix->rows; ++row) EXPECT_EQ(matrix->elements().row_scales[row], scale) << name;
  }
  EXPECT_NE(layer.q.elements().row_scales[0], layer.v.elements().row_scales[0]);
}

TEST_F(Fp8Checkpoint, EachRowMayHaveAScaleInBf16OrFloat32) {
  make_fp8(tensors_, kQ, {.dtype = DType::kBf16});
  make_fp8(tensors_, kV, {.dtype = DType::kF32});
  tensors_.at(kV + ".weight_scale").shape = {32};  // a vector instead of a column
  const Weights weights = open();
  for (const auto& [name, matrix] :
       {std::pair(kQ, &weights.layers[1].q), std::pair(kV, &weights.layers[1].v)}) {
    const std::vector<float> scales = float_values(tensors_.at(name + ".weight_scale"));
    ASSERT_EQ(scales.size(), static_cast<size_t>(matrix->rows));
    for (size_t row = 0; row < scales.size(); ++row)
      EXPECT_EQ(matrix->elements().row_scales[row], scales[row]) << name << ", row " << row;
  }
  EXPECT_EQ(weights.layers[0].q.format(), Format::kBf16);
}

TEST_F(Fp8Checkpoint, AScaleWithoutDimensionsIsThatOfTheTensor) {
  make_fp8(tensors_, kQ, {.is_per_row = false, .dtype = DType::kF32});
  tensors_.at(kQ + ".weight_scale").shape = {};
  const float scale = float_values(tensors_.at(kQ + ".weight_scale")).at(0);
  EXPECT_EQ(open().layers[1].q.elements().row_scales[95], scale);
}

TEST_F(Fp8Checkpoint, TheScaleOfAnInputHasNoEffect) {
  make_fp8(tensors_, kQ, {});
  const auto without = bytes_of(open());
  add_scalar(kQ + ".input_scale");
  EXPECT_EQ(bytes_of(open()), without);
}

TEST_F(Fp8Checkpoint, AMissingScaleIsNamed) {
  make_fp8(tensors_, kQ, {});
  tensors_.erase(kQ + ".weight_scale");
  EXPECT_THAT(error_of_opening(),
              HasSubstr("tensor '" + kQ + ".weight' is F8_E4M3, but the tensor of its scales, '" + kQ +
                        ".weight_scale', is missing"));
}

TEST_F(Fp8Checkpoint, ScalesOfAnotherShapeOrTypeAreRefused) {
  make_fp8(tensors_, kQ, {});
  const std::string expected = "expected BF16 or F32 [1] or [96, 1]";
  for (const Shape& shape : {Shape{95, 1}, Shape{1, 96}, Shape{48, 2}, Shape{2}, Shape{0}}) {
    const std::vector<float> values(*num_elements(shape), 0.5F);
    EXPECT_THAT(error_with_scale(float_tensor(values, shape, DType::kBf16)), HasSubstr(expected));
  }
  OwnedTensor half = float_tensor({0.5F}, {1}, DType::kBf16);
  half.dtype = DType::kF16;
  EXPECT_THAT(error_with_scale(half), HasSubstr("weight_scale' is F16 [1]; " + expected));
}

TEST_F(Fp8Checkpoint, AScaleThatIsNoPositiveNumberIsNamed) {
  make_fp8(tensors_, kQ, {});
  constexpr float kInfinity{std::numeric_limits<float>::infinity()};
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, -1.0F, 0.0F})
    for (const DType dtype : {DType::kBf16, DType::kF32}) {
      std::vector<float> scales(96, 0.5F);
      scales[95] = wrong;
      EXPECT_THAT(error_with_scale(float_tensor(scales, {96, 1}, dtype)),
                  HasSubstr(fmt::format(
                      "value 95 of tensor '{}.weight_scale' is {}; expected a positive number", kQ, wrong)));
    }
}

TEST_F(Fp8Checkpoint, OtherMatricesMustNotBeFp8) {
  for (const std::string layer : {"model.embed_tokens", "model.layers.0.mlp.router"}) {
    const OwnedTensors whole = tensors_;
    make_fp8(tensors_, layer, {});
    EXPECT_THAT(error_of_opening(), AllOf(HasSubstr("'" + layer + ".weight' is F8_E4M3"),
                                          HasSubstr("config.json requires BF16, F16 or F32")));
    tensors_ = whole;
  }
  tensors_.at(kQ + ".weight") = {DType::kF8E5M2, {96, 64}, std::vector<std::byte>(96 * 64)};
  EXPECT_THAT(error_of_opening(),
              HasSubstr("is F8_E5M2 [96, 64]; config.json requires BF16, F16, F32 or F8_E4M3"));
}

TEST_F(Fp8Checkpoint, TensorsOfOtherSchemesAreRefusedByWhatTheyHold) {
  make_fp8(tensors_, kQ, {});
  for (const auto& [name, meaning] :
       {std::pair(kQ + ".weight_scale_inv", "scales of blocks of a matrix"),
        std::pair(kQ + ".weight_zero_point", "zero points of asymmetric quantisation"),
        std::pair(kV + ".weight_scale", "scales of a matrix that is not F8_E4M3"),
        std::pair(kV + ".input_scale", "the scale of the input of a matrix that is not F8_E4M3"),
        std::pair(std::string("model.layers.1.self_attn.k_scale"), "a scale of an FP8 KV cache"),
        std::pair(kQ + ".weight_packed", "weights packed into integers")}) {
    add_scalar(name);
    EXPECT_THAT(error_of_opening(), HasSubstr("tensor '" + name + "' holds " + meaning));
    tensors_.erase(name);
  }
  add_scalar("model.layers.1.adapter");
  EXPECT_THAT(error_of_opening(), HasSubstr("are not part of the model"));
}

TEST_F(Fp8Checkpoint, ACodeThatIsNotANumberIsNamedWhenTheModelIsLoaded) {
  for (const std::string& layer : fp8_layers(config_.num_layers)) {
    const OwnedTensors whole = tensors_;
    make_fp8(tensors_, layer, {});
    check_vectors(open());
    std::vector<std::byte>& codes = tensors_.at(layer + ".weight").bytes;
    codes.back() = std::byte{0xFF};
    EXPECT_THAT(error_of([&] { check_vectors(open()); }),
                HasSubstr(fmt::format("value {} of tensor '{}.weight' is nan", codes.size() - 1, layer)));
    tensors_ = whole;
  }
}

TEST_F(Fp8Checkpoint, IsNotConverted) {
  make_fp8(tensors_, kQ, {});
  EXPECT_THAT(error_of([&] { open_source(write()); }),
              HasSubstr("tensor '" + kQ + ".weight' is F8_E4M3, which nibble runs but does not convert"));
}

TEST_F(Fp8Checkpoint, QuantisingToFp8KeepsTheMatrixAndToMxfp4UsesItsValues) {
  for (const std::string& layer : fp8_layers(config_.num_layers)) make_fp8(tensors_, layer, {});
  const auto fp8 = std::make_shared<const Weights>(open());
  for (const std::string& layer : fp8_layers(config_.num_layers)) undo_fp8(tensors_, layer);
  const auto wide = std::make_shared<const Weights>(open());
  ThreadPool pool(1);
  constexpr DenseFormats kAllFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3};
  constexpr DenseFormats kAllMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};
  EXPECT_EQ(quantise_dense(fp8, kAllFp8, pool)->layers[1].k.elements().data,
            fp8->layers[1].k.elements().data);
  EXPECT_EQ(bytes_of(*quantise_dense(fp8, kAllMxfp4, pool)),
            bytes_of(*quantise_dense(wide, kAllMxfp4, pool)));
}

TEST_F(Fp8Checkpoint, AShareOfItHasTheScalesOfItsRows) {
  for (const std::string& layer : fp8_layers(config_.num_layers)) make_fp8(tensors_, layer, {});
  const Weights whole = open();
  const std::vector<int> parts{1, 1};
  const Share second = shares_of(whole.config, parts, "test", {}).at(1);
  const auto share = share_of(whole, second, {});
  const LayerWeights &to = share->layers[1], &from = whole.layers[1];
  const auto codes = [](const Matrix& matrix) { return static_cast<const uint8_t*>(matrix.elements().data); };
  EXPECT_EQ(to.q.rows, 48);
  for (int row = 0; row < to.q.rows; ++row) {
    EXPECT_EQ(to.q.elements().row_scales[row], from.q.elements().row_scales[48 + row]);
    EXPECT_EQ(codes(to.q)[ptrdiff_t{row} * 64 + 7], codes(from.q)[ptrdiff_t{48 + row} * 64 + 7]);
  }
  EXPECT_EQ(to.o.cols, 48);
  for (int row = 0; row < to.o.rows; ++row) {
    EXPECT_EQ(to.o.elements().row_scales[row], from.o.elements().row_scales[row]);
    EXPECT_EQ(codes(to.o)[ptrdiff_t{row} * 48 + 7], codes(from.o)[ptrdiff_t{row} * 96 + 48 + 7]);
  }
}

}  // namespace
}  // namespace nibble
