// Tests checkpoints in the forms that fine-tuning programs save: in F16, and with unsloth's names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/numbers/f16.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/write_checkpoint.h"
#include "tests/error_of.h"
#include "tests/model/fp8_checkpoint.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FineTune : public testing::Test {
 protected:
  FineTune() {
    write_checkpoint(synthetic_source(config_, "synthetic"), folder_.path() / "hf");
    tensors_ = read_tensors(folder_.path() / "hf");
  }
  std::filesystem::path write(const std::string& name = "model.safetensors") const {
    const std::filesystem::path file = folder_.path() / name;
    write_checkpoint(file, tensors_, to_json(config_));
    return file;
  }
  std::string error_of_opening() const {
    return error_of([&] { open_weights(write()); });
  }
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    ASSERT_FALSE(node.empty()) << from;
    node.key() = to;
    tensors_.insert(std::move(node));
  }

  const TestFolder folder_;
  const Config config_{small_config()};
  OwnedTensors tensors_;
};

// Returns the values as in a model that was trained in F16: BF16 does not hold all of them.
OwnedTensor in_f16(const OwnedTensor& tensor) {
  OwnedTensor narrow{DType::kF16, tensor.shape, {}};
  for (const float value : float_values(tensor)) {
    const F16 half = to_f16(value * 1.001f);
    const auto* bytes = reinterpret_cast<const std::byte*>(&half);
    narrow.bytes.insert(narrow.bytes.end(), bytes, bytes + sizeof(half));
  }
  return narrow;
}
OwnedTensor widened(const OwnedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(F16));
  for (size_t i = 0; i < values.size(); ++i) {
    F16 half{};
    std::memcpy(&half, &tensor.bytes[i * sizeof(half)], sizeof(half));
    values[i] = to_float(half);
  }
  return float_tensor(values, tensor.shape, DType::kF32);
}

TEST_F(FineTune, F16IsReadAsTheSameNumbersAndMatricesBecomeBf16) {
  OwnedTensors wide = tensors_;
  for (auto& [name, tensor] : tensors_)
    if (tensor.dtype == DType::kBf16) {
      tensor = in_f16(tensor);
      wide[name] = widened(tensor);
    }
  const TensorSource source = open_source(write());
  const Weights weights = open_weights(write());
  EXPECT_EQ(weights.embedding.blocks()->type, GgmlType::kF16);
  EXPECT_EQ(weights.layers[1].attention_norm[5],
            float_values(wide.at("model.layers.1.input_layernorm.weight"))[5]);
  for (const TensorSpec& spec : tensor_specs(config_)) {
    if (spec.dtype == DType::kU8) continue;
    Buffer room;
    const StoredTensor read = source.read(spec, room);
    const DType expected = spec.kind == TensorKind::kDense ? DType::kBf16 : DType::kF32;
    EXPECT_EQ(source.dtype(spec), expected);
    ASSERT_EQ(read.dtype, expected);
    const OwnedTensor right = float_tensor(float_values(wide.at(spec.name)), spec.shape, expected);
    EXPECT_EQ(std::memcmp(read.data, right.bytes.data(), right.bytes.size()), 0) << spec.name;
  }
}

TEST_F(FineTune, UnslothsRouterAndBiasesAreTheSameModel) {
  const Weights released = open_weights(write("released.safetensors"));
  const OwnedTensors original = tensors_;
  for (const auto& [name, tensor] : original) {
    const size_t router = name.find("router."), bias = name.find("_proj_bias");
    if (router != std::string::npos) rename(name, std::string(name).insert(router + 7, "linear."));
    if (bias == std::string::npos) continue;
    tensors_.erase(name);
    const uint64_t count = tensor.shape[0], bytes = tensor.bytes.size() / count;
    for (uint64_t expert = 0; expert < count; ++expert) {
      const auto* first = tensor.bytes.data() + expert * bytes;
      tensors_[fmt::format("{}_projs.{}.bias", name.substr(0, bias), expert)] = {
          tensor.dtype, {tensor.shape[1]}, {first, first + bytes}};
    }
  }
  const Weights split = open_weights(write());
  for (size_t n = 0; n < released.layers.size(); ++n) {
    const LayerWeights &a = released.layers[n], &b = split.layers[n];
    EXPECT_EQ(std::memcmp(a.router.elements().data, b.router.elements().data, 2u * 5 * 64), 0);
    for (const auto& [one, other] : {std::pair(&a.gate_up, &b.gate_up), std::pair(&a.down, &b.down)})
      for (int expert = 0; expert < config_.num_experts; ++expert) {
        const Vector right = one->bias(expert), read = other->bias(expert);
        ASSERT_EQ(right.count, read.count);
        for (int i = 0; i < right.count; ++i) EXPECT_EQ(right[i], read[i]);
      }
  }
  tensors_.erase("model.layers.2.mlp.experts.down_projs.3.bias");
  EXPECT_THAT(error_of_opening(),
              HasSubstr("'model.layers.2.mlp.experts.down_projs.3.bias' is missing: config.json"));
}

TEST_F(FineTune, ACheckpointOfAnotherProgramIsNamedByItsTensors) {
  rename("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.qweight");
  EXPECT_THAT(error_of_opening(),
              AllOf(HasSubstr("q_proj.qweight' is BF16 [96, 64]; 4-bit weights of a GPTQ or AWQ checkpoint"),
                    HasSubstr("model.safetensors: ")));
}

TEST_F(FineTune, AnAdapterIsNamedWithItsModel) {
  std::filesystem::create_directories(folder_.path() / "adapter");
  std::filesystem::copy(write(), folder_.path() / "adapter" / "adapter_model.safetensors");
  write_text(folder_.path() / "adapter" / "adapter_config.json",
             R"({"peft_type": "LORA", "base_model_name_or_path": "openai/gpt-oss-20b"})");
  EXPECT_THAT(error_of([&] { open_weights(folder_.path() / "adapter"); }),
              HasSubstr("is a LoRA adapter of \"openai/gpt-oss-20b\", not a model"));
}

}  // namespace
}  // namespace nibble
