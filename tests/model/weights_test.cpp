#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/errors/error.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTiny = test::source_path("models/tiny-gpt-oss");
const std::string kRandom = test::source_path("tests/golden/random/");

float at(const Matrix& matrix, int row, int col) {
  EXPECT_EQ(matrix.format(), Format::kBf16);
  return to_float(static_cast<const Bf16*>(matrix.elements().data)[ptrdiff_t{row} * matrix.cols + col]);
}

std::vector<float> mxfp4_row(const Matrix& matrix, int row) {
  constexpr float kE2m1[]{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.f, -0.5, -1, -1.5, -2, -3, -4, -6};
  EXPECT_EQ(matrix.format(), Format::kMxfp4);
  std::vector<float> values;
  for (int col = 0; col < matrix.cols; ++col) {
    const ptrdiff_t element = ptrdiff_t{row} * matrix.cols + col;
    const uint8_t pair = static_cast<const uint8_t*>(matrix.elements().data)[element / 2];
    values.push_back(std::ldexp(kE2m1[col % 2 == 0 ? pair & 15 : pair >> 4],
                                matrix.elements().scales[element / 32] - 127));
  }
  return values;
}

// The expected values were read from the files with a few lines of Python that use only the file format.
TEST(OpenWeights, TheBundledModelHoldsTheseValues) {
  const Weights weights = open_weights(kTiny);
  EXPECT_EQ(weights.source, kTiny);
  ASSERT_EQ(weights.layers.size(), 6u);
  EXPECT_EQ(weights.embedding.rows, 4096);
  EXPECT_EQ(weights.embedding.cols, 256);
  EXPECT_EQ(at(weights.embedding, 3, 4), 0.83984375f);
  EXPECT_EQ(at(weights.unembedding, 5, 6), 0.11767578125f);
  EXPECT_EQ(weights.final_norm[12], 2.234375f);
  const LayerWeights& layer = weights.layers[2];
  EXPECT_EQ(layer.kind, LayerKind::kSliding);
  EXPECT_EQ(layer.q.rows, 512);
  EXPECT_EQ(layer.k.rows, 128);
  EXPECT_EQ(layer.o.rows, 256);
  EXPECT_EQ(layer.o.cols, 512);
  EXPECT_EQ(layer.router.rows, 16);
  EXPECT_EQ(at(layer.q, 9, 10), 0.01031494140625f);
  EXPECT_EQ(layer.v_bias[11], 0.01385498046875f);
  EXPECT_EQ(layer.sinks.count, 8);
  EXPECT_EQ(layer.sinks[1], 1.7890625f);
}

TEST(OpenWeights, AnExpertsRowDecodesToTheseValues) {
  const Weights weights = open_weights(kTiny);
  const LayerWeights& layer = weights.layers[1];
  const std::vector<float> gate_up = mxfp4_row(layer.gate_up.matrix(2), 7);
  ASSERT_EQ(gate_up.size(), 256u);
  EXPECT_THAT(std::vector(gate_up.begin(), gate_up.begin() + 8),
              ElementsAre(0.09375f, 0.046875f, -0.0f, 0.0625f, -0.09375f, -0.0625f, 0.03125f, -0.046875f));
  EXPECT_EQ(std::accumulate(gate_up.begin(), gate_up.end(), 0.0), 0.71875);
  EXPECT_EQ(layer.gate_up.bias(2)[7], -0.154296875f);

  const std::vector<float> down = mxfp4_row(layer.down.matrix(3), 5);
  ASSERT_EQ(down.size(), 128u);
  EXPECT_EQ(std::accumulate(down.begin(), down.end(), 0.0), 0.890625);
  EXPECT_EQ(layer.down.bias(3)[5], 0.0079345703125f);
}

TEST(OpenWeights, ModelsOfOtherShapesHoldTheseValues) {
  const Weights a = open_weights(kRandom + "a"), b = open_weights(kRandom + "b");
  EXPECT_EQ(a.layers.size(), 4u);
  EXPECT_EQ(at(a.layers[2].q, 9, 10), -0.01348876953125f);
  const std::vector<float> a_row = mxfp4_row(a.layers[1].down.matrix(3), 5);
  EXPECT_EQ(std::accumulate(a_row.begin(), a_row.end(), 0.0), 0.1279296875);
  EXPECT_EQ(b.layers[2].sinks[2], -0.69140625f);
  const std::vector<float> b_row = mxfp4_row(b.layers[1].gate_up.matrix(2), 7);
  EXPECT_EQ(std::accumulate(b_row.begin(), b_row.end(), 0.0), 0.953125);
  EXPECT_EQ(b.layers[1].down.bias(3)[5], 0.236328125f);
}

TEST(OpenWeights, EveryMatrixLiesInAFileOfTheList) {
  const Weights weights = open_weights(kTiny);
  EXPECT_EQ(weights.files.size(), 2);
  const auto is_in_a_file = [&](const void* data) {
    return std::any_of(weights.files.begin(), weights.files.end(), [&](const auto& file) {
      const std::span<const std::byte> bytes = file->bytes();
      return bytes.data() <= data && data < bytes.data() + bytes.size();
    });
  };
  EXPECT_TRUE(is_in_a_file(weights.embedding.elements().data));
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router})
      EXPECT_TRUE(is_in_a_file(matrix->elements().data));
    for (const ExpertMatrices* experts : {&layer.gate_up, &layer.down}) {
      EXPECT_TRUE(is_in_a_file(experts->first.elements().data));
      EXPECT_TRUE(is_in_a_file(experts->first.elements().scales));
    }
  }
  EXPECT_TRUE(open_weights(kTiny).is_mapped());
  EXPECT_FALSE(make_synthetic(weights.config, "synthetic", 0, {}).is_mapped());
}

TEST(Format, SaysItsBytes) {
  EXPECT_EQ(num_bytes(Format::kF32, 32), 128u);
  EXPECT_EQ(num_bytes(Format::kBf16, 32), 64u);
  EXPECT_EQ(num_bytes(Format::kMxfp4, 2880), 90u * 17);
  EXPECT_EQ(num_bytes(Format::kE4m3, 32), 32u);
  EXPECT_EQ(matrix_bytes(Format::kE4m3, 3, 32), 3u * (32 + 4));  // one float32 per row
  EXPECT_EQ(matrix_bytes(Format::kMxfp4, 3, 64), 3u * 34);
  EXPECT_EQ(name(Format::kMxfp4), "MXFP4");
  EXPECT_EQ(name(Format::kE4m3), "FP8");
}

// A checkpoint of the small model. Tests damage the checkpoint and then open it.
class OpenWeightsFrom : public testing::Test {
 protected:
  OpenWeightsFrom() {
    const std::filesystem::path folder = folder_.path() / "hf";
    write_checkpoint(synthetic_source(config_, "synthetic"), folder);
    tensors_ = read_tensors(folder);
  }
  std::string error_of_opening() const {
    return error_of([&] { open(); });
  }
  Weights open() const {
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    write_checkpoint(file, tensors_, config_json_);
    return open_weights(file);
  }
  OwnedTensor& tensor(const std::string& name) { return tensors_.at(name); }
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    ASSERT_FALSE(node.empty()) << from;
    node.key() = to;
    tensors_.insert(std::move(node));
  }
  // Concatenates the tensors of `parts` to a tensor with OpenAI's name, `to`.
  void join(const std::vector<std::string>& parts, const std::string& to) {
    OwnedTensor joined = tensor(parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) {
      const OwnedTensor& part = tensor(parts[i]);
      joined.shape[0] += part.shape[0];
      joined.bytes.insert(joined.bytes.end(), part.bytes.begin(), part.bytes.end());
    }
    for (const std::string& part : parts) tensors_.erase(part);
    tensors_[to] = std::move(joined);
  }

  TestFolder folder_;
  Config config_ = small_config();
  std::string config_json_ = to_json(config_);
  OwnedTensors tensors_;
};

TEST_F(OpenWeightsFrom, OneFileIsTheSameAsItsFolder) {
  EXPECT_EQ(bytes_of(open()), bytes_of(open_weights(folder_.path() / "hf")));
}

TEST_F(OpenWeightsFrom, OpenAisNamesAndJoinedQkvAreTheSameModel) {
  rename("model.embed_tokens.weight", "embedding.weight");
  rename("lm_head.weight", "unembedding.weight");
  rename("model.norm.weight", "norm.scale");
  for (int n = 0; n < config_.num_layers; ++n) {
    const std::string hf = fmt::format("model.layers.{}.", n), openai = fmt::format("block.{}.", n);
    for (const std::string field : {"weight", "bias"}) {
      join({hf + "self_attn.q_proj." + field, hf + "self_attn.k_proj." + field,
            hf + "self_attn.v_proj." + field},
           openai + "attn.qkv." + field);
      rename(hf + "self_attn.o_proj." + field, openai + "attn.out." + field);
      rename(hf + "mlp.router." + field, openai + "mlp.gate." + field);
    }
    rename(hf + "input_layernorm.weight", openai + "attn.norm.scale");
    rename(hf + "post_attention_layernorm.weight", openai + "mlp.norm.scale");
    rename(hf + "self_attn.sinks", openai + "attn.sinks");
    for (const auto& [from, to] : {std::pair("gate_up_proj", "mlp1"), std::pair("down_proj", "mlp2")}) {
      rename(fmt::format("{}mlp.experts.{}_blocks", hf, from),
             fmt::format("{}mlp.{}_weight.blocks", openai, to));
      rename(fmt::format("{}mlp.experts.{}_scales", hf, from),
             fmt::format("{}mlp.{}_weight.scales", openai, to));
      rename(fmt::format("{}mlp.experts.{}_bias", hf, from), fmt::format("{}mlp.{}_bias", openai, to));
    }
  }
  config_.layer_kinds = {LayerKind::kSliding, LayerKind::kFull, LayerKind::kSliding};
  config_json_ = R"({"num_hidden_layers": 3, "num_experts": 5, "experts_per_token": 2, "vocab_size": 99,
    "hidden_size": 64, "intermediate_size": 96, "swiglu_limit": 7.0, "head_dim": 16, "num_attention_heads": 6,
    "num_key_value_heads": 2, "sliding_window": 8, "initial_context_length": 4096, "rope_theta": 150000,
    "rope_scaling_factor": 32.0, "rope_ntk_alpha": 1.0, "rope_ntk_beta": 32.0})";
  const Weights weights = open();
  EXPECT_EQ(bytes_of(weights), bytes_of(open_weights(folder_.path() / "hf")));
  EXPECT_EQ(weights.layers[1].kind, LayerKind::kFull);
}

TEST_F(OpenWeightsFrom, DenseTensorsMayBeFloat32) {
  const Weights bf16 = open_weights(folder_.path() / "hf");
  for (const char* name :
       {"model.layers.0.self_attn.k_proj.weight", "model.layers.0.mlp.experts.down_proj_bias"}) {
    OwnedTensor& narrow = tensor(name);
    std::vector<std::byte> wide(narrow.bytes.size() * 2);
    for (size_t i = 0; i < narrow.bytes.size(); i += 2) std::memcpy(&wide[2 * i + 2], &narrow.bytes[i], 2);
    narrow.dtype = DType::kF32;
    narrow.bytes = wide;
  }
  const Weights weights = open();
  EXPECT_EQ(weights.layers[0].k.format(), Format::kF32);
  EXPECT_EQ(static_cast<const float*>(weights.layers[0].k.elements().data)[17], at(bf16.layers[0].k, 0, 17));
  EXPECT_EQ(weights.layers[0].down.bias(4)[3], bf16.layers[0].down.bias(4)[3]);
  EXPECT_EQ(weights.layers[1].k.format(), Format::kBf16);
}

TEST_F(OpenWeightsFrom, AMissingTensorIsNamed) {
  tensors_.erase("model.layers.1.self_attn.sinks");
  EXPECT_THAT(error_of_opening(),
              HasSubstr("tensor 'model.layers.1.self_attn.sinks' is missing (59 tensors are present)"));
}

TEST_F(OpenWeightsFrom, AWrongShapeIsNamedWithTheNeededOne) {
  tensor("model.layers.2.self_attn.q_proj.weight").shape = {64, 96};
  EXPECT_THAT(error_of_opening(),
              HasSubstr("model.safetensors: tensor 'model.layers.2.self_attn.q_proj.weight' is "
                        "BF16 [64, 96]; config.json requires BF16, F16, F32 or F8_E4M3 [96, 64]"));
}

TEST_F(OpenWeightsFrom, AWrongTypeIsNamedWithTheNeededOne) {
  tensor("model.norm.weight").dtype = DType::kI16;
  EXPECT_THAT(error_of_opening(), HasSubstr("is I16 [64]; config.json requires BF16, F16 or F32 [64]"));
}

TEST_F(OpenWeightsFrom, ScalesOfAnotherTypeAreRefused) {
  tensor("model.layers.0.mlp.experts.down_proj_scales").dtype = DType::kI8;
  EXPECT_THAT(error_of_opening(), HasSubstr("is I8 [5, 64, 3]; config.json requires U8 [5, 64, 3]"));
}

TEST_F(OpenWeightsFrom, ATensorOfNoUseMeansAnotherModel) {
  config_.num_layers = 2;
  config_.layer_kinds.pop_back();
  config_json_ = to_json(config_);
  EXPECT_THAT(error_of_opening(), HasSubstr("'model.layers.2."));
  EXPECT_THAT(error_of_opening(), HasSubstr("19 of 60 tensors are not part of the model"));
}

TEST_F(OpenWeightsFrom, TensorsOfAnotherModelAreNoCheckpoint) {
  tensors_ = {{"model.wte.weight", {DType::kBf16, {1}, std::vector<std::byte>(2)}}};
  EXPECT_THAT(error_of_opening(), HasSubstr("not a gpt-oss checkpoint"));
}

TEST_F(OpenWeightsFrom, AFolderWithoutConfigIsRefused) {
  std::filesystem::remove(folder_.path() / "hf" / "config.json");
  EXPECT_THAT(error_of([&] { open_weights(folder_.path() / "hf"); }),
              HasSubstr("no config.json next to the tensors"));
}

TEST(OpenWeights, WhatIsNoCheckpointIsRefusedInOneLine) {
  const TestFolder folder;
  EXPECT_THAT(error_of([] { open_weights("/nowhere/at/all"); }), HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of([&] { open_weights(folder.path()); }), HasSubstr("no safetensors file"));
  write_text(folder.path() / "model.gguf", "GGUF\x03");
  EXPECT_THAT(error_of([&] { open_weights(folder.path() / "model.gguf"); }), HasSubstr("truncated"));
}

}  // namespace
}  // namespace nibble
