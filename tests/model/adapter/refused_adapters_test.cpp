// LoRA adapters that are refused, and the messages that say why.
#include <limits>

#include "tests/model/adapter/adapter_fixture.h"

namespace nibble::adapter_tests {
namespace {

TEST_F(Adapters, WhoseConfigurationChangesMoreThanMatricesAreRefusedByName) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  EXPECT_EQ(error_of([&] {
              open(R"(, "task_type": "CAUSAL_LM", "lora_dropout": 0.1, "new_field": null, "eva": {})");
            }),
            "accepted");
  for (const auto& [field, meaning] : {
           std::pair(R"("use_qalora": true)", "QALoRA"),
           std::pair(R"("lora_bias": true)", "'lora_bias' says that it has biases of its own"),
           std::pair(R"("fan_in_fan_out": true)", "transposed"),
           std::pair(R"("trainable_token_indices": [1])", "replaces rows of the embedding"),
           std::pair(R"("layer_replication": [[0, 2]])", "repeated layers"),
           std::pair(R"("alora_invocation_tokens": [5])", "activated LoRA"),
           std::pair(R"("init_lora_weights": "pissa_niter_16")",
                     "'init_lora_weights' \"pissa_niter_16\" changes"),
           std::pair(R"("new_field": 1)", "unknown field \"new_field\", which may change"),
       })
    EXPECT_THAT(error_of_opening(std::string(", ") + field), HasSubstr(meaning));
  const auto error_with = [&](const std::string& json) {
    const std::filesystem::path folder = write();
    write_text(folder / "adapter_config.json", json);
    return error_of([&] { open_adapter(folder, config_); });
  };
  const std::string rest = R"("r": 4, "lora_alpha": 8})";
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "use_dora": true, )" + rest), HasSubstr("DoRA"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "bias": "all", )" + rest), HasSubstr("biases"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "modules_to_save": ["lm_head"], )" + rest),
              HasSubstr("'modules_to_save' says that it replaces whole modules"));
  EXPECT_THAT(error_with(R"({"peft_type": "LOHA", )" + rest),
              HasSubstr("'peft_type' is \"LOHA\"; expected \"LORA\""));
  EXPECT_THAT(error_with("{" + rest), HasSubstr("'peft_type' is missing"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "r": 4})"), HasSubstr("'lora_alpha' is missing"));
  EXPECT_THAT(error_with(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 8})"), HasSubstr("'r' is 0"));
}

TEST_F(Adapters, WhoseTensorsDoNotFitTheModelAreRefusedByName) {
  const std::string q = "model.layers.1.self_attn.q_proj";
  const auto error_with = [&](const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
    tensors_.clear();
    add_pair(q, 4, 64, 96);
    add(name, shape, dtype);
    return error_of_opening();
  };
  EXPECT_THAT(
      error_with(q + ".lora_A.weight", {4, 32}),
      HasSubstr(
          "are [4, 32] and [96, 4]; expected [r, 64] and [96, r] of rank r: the adapter is for another"));
  EXPECT_THAT(error_with(q + ".lora_A.weight", {3, 64}), HasSubstr("are [3, 64] and [96, 4]"));
  EXPECT_THAT(error_with(q + ".lora_A.weight", {256}), HasSubstr("is not a matrix of BF16, F16 or F32"));
  EXPECT_THAT(error_with("model.layers.3.self_attn.q_proj.lora_A.weight", {4, 64}),
              HasSubstr("has no partner"));
  EXPECT_THAT(error_with(q + ".lora_magnitude_vector", {96}), HasSubstr("holds the magnitudes of DoRA"));
  EXPECT_THAT(error_with("lm_head.weight", {99, 64}), HasSubstr("(modules_to_save)"));
  EXPECT_THAT(error_with(q + ".bias", {96}), HasSubstr("holds a bias that was trained as a whole"));
  EXPECT_THAT(error_with("model.layers.1.self_attn.sinks", {6}), HasSubstr("holds sinks"));
  EXPECT_THAT(error_with("something", {6}), HasSubstr("is not a tensor of a LoRA adapter"));
  EXPECT_THAT(error_with(q + ".lora_A.default.weight", {4, 64}), HasSubstr("is there twice"));
  for (const std::string module :
       {"model.layers.3.self_attn.q_proj", "model.layers.01.self_attn.q_proj", "model.layers.1.mlp.gate",
        "model.layers.1.mlp.experts.gate_up_projs.5", "visual.q_proj", "model.layers.3.mlp.experts"}) {
    tensors_.clear();
    add_pair(module, 20, 96, 64);
    EXPECT_THAT(error_of_opening(),
                HasSubstr("is of a module that the model (3 layers, 5 experts) does not have"))
        << module;
  }
  tensors_.clear();
  EXPECT_THAT(error_of_opening(), HasSubstr("the adapter changes no matrix"));
}

TEST_F(Adapters, WithValuesThatAreNotFiniteAreRefused) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  OwnedTensor& a = tensors_.at(kPrefix + std::string("model.layers.1.self_attn.q_proj.lora_A.weight"));
  const float nan = std::numeric_limits<float>::quiet_NaN(), large = 1e30F;
  std::memcpy(&a.bytes[4 * 70], &nan, 4);
  EXPECT_THAT(error_of_opening(),
              HasSubstr("the update of q of layer 1 has values that are not finite numbers"));
  std::memcpy(&a.bytes[4 * 70], &large, 4);
  const Adapter adapter = open();
  EXPECT_EQ(error_of([&] { merged(adapter); }), "accepted");
  EXPECT_THAT(error_of([&] { merged(adapter, 1e10F); }),
              AllOf(HasSubstr("q of layer 1 has values that are not finite"), Not(HasSubstr("\n"))));
}

TEST_F(Adapters, ThatMakeExpertsInfiniteAreRefused) {
  const std::string module = "model.layers.1.mlp.experts.gate_up_projs.2";
  add_pair(module, 4, 64, 192);
  const float large = 1e30F;
  std::memcpy(tensors_.at(kPrefix + module + ".lora_A.weight").bytes.data(), &large, 4);
  const Adapter adapter = open();
  EXPECT_EQ(error_of([&] { merged_experts(adapter); }), "accepted");
  EXPECT_THAT(error_of([&] { merged_experts(adapter, 1e10F); }),
              HasSubstr("experts have values that are not finite numbers"));
}

TEST_F(Adapters, WithTwoUpdatesOfAMatrixAreRefused) {
  const std::string experts = "model.layers.1.mlp.experts.";
  const auto error_with = [&](const std::string& one, const std::string& other, uint64_t rows) {
    tensors_.clear();
    add_pair(one, 4, 64, rows);
    add_pair(other, 4, 64, other.ends_with("gate_proj") || other.ends_with("up_proj") ? 96 : rows);
    return error_of([&] { open(); });
  };
  EXPECT_THAT(error_with("model.layers.1.mlp.router", "model.layers.1.mlp.router.linear", 5),
              HasSubstr("is a second update of router of layer 1"));
  EXPECT_THAT(error_with(experts + "gate_up_projs.3", experts + "3.gate_proj", 192),
              HasSubstr("is a second update of experts' gate_up of layer 1"));
  EXPECT_EQ(error_with(experts + "3.gate_proj", experts + "3.up_proj", 96), "accepted");
}

TEST_F(Adapters, WithoutTheirFilesAreRefused) {
  add_pair("model.layers.1.self_attn.q_proj", 4, 64, 96);
  const std::filesystem::path folder = write();
  EXPECT_EQ(open_adapter(folder / "adapter_model.safetensors", config_).updates.size(), 1u);
  std::filesystem::remove(folder / "adapter_config.json");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("no adapter_config.json next to the tensors"));
  std::filesystem::remove(folder / "adapter_model.safetensors");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("no adapter_model.safetensors; expected"));
  write_text(folder / "adapter_model.bin", "PK");
  EXPECT_THAT(error_of([&] { open_adapter(folder, config_); }),
              HasSubstr("only adapter_model.bin, a Python pickle"));
  EXPECT_THAT(error_of([&] { open_adapter(folder / "x", config_); }), HasSubstr("no such file or folder"));
}

}  // namespace
}  // namespace nibble::adapter_tests
