// Tests which descriptions of FP8 weights in a config.json are accepted and which are refused.
#include "model/quantization_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/config.h"
#include "tests/error_of.h"
#include "tests/model/fp8_checkpoint.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_with(const json& quantization) {
  json object = json::parse(to_json(small_config()));
  object["quantization_config"] = quantization;
  return error_of([&] { parse_config(object.dump(), "config.json"); });
}

TEST(QuantizationFields, Fp8OfThreeToolsIsAccepted) {
  EXPECT_EQ(error_with(fp8_quantization()), "accepted");
  for (const char* text : {
           R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})",
           R"({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
               "weight_block_size": null, "modules_to_not_convert": null})",
           R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": null,
               "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.33"},
               "config_groups": {"group_0": {"targets": ["Linear"],
                 "input_activations": {"dynamic": false, "num_bits": 8, "type": "float"},
                 "weights": {"dynamic": false, "num_bits": 8, "type": "float"}}}})",
       })
    EXPECT_EQ(error_with(json::parse(text)), "accepted") << text;
}

struct Wrong {
  const char *path, *value, *message;
};

// Each of these fields gives the bytes of weights another meaning, or adds scales that nibble can't use.
TEST(QuantizationFields, AFieldThatChangesTheWeightsIsRefusedByName) {
  const Wrong wrongs[] = {
      {"/format", "\"int-quantized\"", "'format' is \"int-quantized\"; expected \"float-quantized\" or"},
      {"/format", "null", "'format' is missing"},
      {"/quantization_status", "\"frozen\"", "'quantization_status' is \"frozen\"; expected \"compressed\""},
      {"/kv_cache_scheme", R"({"num_bits":8})", "'kv_cache_scheme' is {\"num_bits\":8}; expected null"},
      {"/transform_config", R"({"config_groups":{}})", "'transform_config' is"},
      {"/sparsity_config", R"({"format":"sparse-24-bitmask"})", "'format' is \"sparse-24-bitmask\""},
      {"/rotation", "true", "unknown field \"rotation\""},
      {"/config_groups", "[]", "'config_groups': expected an object"},
      {"/config_groups/group_0/format", "\"int-quantized\"", "'group_0': 'format' is"},
      {"/config_groups/group_0/weights", "null", "'group_0': 'weights' is missing"},
      {"/config_groups/group_0/weights/num_bits", "6", "'weights': 'num_bits' is 6; expected 8"},
      {"/config_groups/group_0/weights/num_bits", "4",
       "'strategy' is \"channel\"; expected \"tensor_group\""},
      {"/config_groups/group_0/weights/num_bits", "null", "'num_bits' is missing; expected 8"},
      {"/config_groups/group_0/weights/type", "\"int\"", "'type' is \"int\"; expected \"float\""},
      {"/config_groups/group_0/weights/type", "null", "'type' is missing; expected \"float\""},
      {"/config_groups/group_0/weights/strategy", "\"block\"",
       "'strategy' is \"block\"; expected \"tensor\" or \"channel\""},
      {"/config_groups/group_0/weights/symmetric", "false", "'symmetric' is false"},
      {"/config_groups/group_0/weights/dynamic", "true", "'dynamic' is true"},
      {"/config_groups/group_0/weights/group_size", "128", "'group_size' is 128; expected null"},
      {"/config_groups/group_0/weights/actorder", "\"group\"", "'actorder' is \"group\"; expected null"},
      {"/config_groups/group_0/weights/block_structure", "[128,128]", "'block_structure' is [128,128]"},
  };
  for (const Wrong& wrong : wrongs) {
    json quantization = fp8_quantization();
    quantization[json::json_pointer(wrong.path)] = json::parse(wrong.value);
    EXPECT_THAT(error_with(quantization), AllOf(HasSubstr("config.json: 'quantization_config': "),
                                                HasSubstr(wrong.message), Not(HasSubstr("\n"))))
        << wrong.path;
  }
}

json four_bit_quantization() {
  json quantization = fp8_quantization();
  quantization["format"] = "nvfp4-pack-quantized";
  quantization["config_groups"]["group_0"]["weights"] = json::parse(
      R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": true})");
  return quantization;
}

TEST(QuantizationFields, WeightsOf4BitsAreAcceptedAsTheirProgramsDescribeThem) {
  json quantization = four_bit_quantization();
  EXPECT_EQ(error_with(quantization), "accepted");
  json& weights = quantization["config_groups"]["group_0"]["weights"];
  weights["group_size"] = 32;
  EXPECT_THAT(error_with(quantization), HasSubstr("'group_size' is 32; expected 16"));
  weights = json::parse(R"({"num_bits": 4, "type": "int", "strategy": "group", "symmetric": false})");
  quantization["format"] = "pack-quantized";
  EXPECT_EQ(error_with(quantization), "accepted");
  weights["actorder"] = "group";
  EXPECT_THAT(error_with(quantization), HasSubstr("'actorder' is \"group\"; expected null"));
  for (const char* text : {
           R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]})",
           R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": true})",
           R"({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": true, "sym": true,
               "checkpoint_format": "gptq_v2", "pack_dtype": "int32", "dynamic": {}, "rotation": null})",
       })
    EXPECT_EQ(error_with(json::parse(text)), "accepted") << text;
}

TEST(QuantizationFields, AnotherLayoutOfAwqOrGptqIsRefused) {
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "awq", "bits": 4, "version": "gemv"})")),
              HasSubstr("'version' is \"gemv\"; expected \"gemm\""));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "awq", "bits": 4, "zero_point": false})")),
              HasSubstr("'zero_point' is false"));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "gptq", "bits": 4, "rotation": "hadamard"})")),
              HasSubstr("'rotation' is \"hadamard\"; expected null"));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "gptq", "bits": 4, "pack_dtype": "int8"})")),
              HasSubstr("'pack_dtype' is \"int8\"; expected \"int32\""));
}

TEST(QuantizationFields, GptqSaysHowZeroPointsAreStored) {
  const TestFolder folder;
  const auto offset_with = [&](const char* quantization) {
    write_text(folder.path() / "config.json", fmt::format(R"({{"quantization_config": {}}})", quantization));
    return read_gptq_zero_offset(folder.path() / "config.json");
  };
  EXPECT_EQ(offset_with(R"({"quant_method": "gptq"})"), 1u);
  EXPECT_EQ(offset_with(R"({"quant_method": "gptq", "checkpoint_format": "gptq"})"), 1u);
  EXPECT_EQ(offset_with(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})"), 0u);
  EXPECT_EQ(offset_with(R"({"quant_method": "awq"})"), std::nullopt);
  EXPECT_EQ(offset_with("null"), std::nullopt);
}

TEST(QuantizationFields, OtherMethodsAndTheirVariantsAreRefused) {
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})")),
              HasSubstr("'weight_block_size' is [128,128]; expected null"));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "fp8", "fmt": "e5m2"})")),
              HasSubstr("'fmt' is \"e5m2\"; expected \"e4m3\""));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"})")),
              HasSubstr("'quant_algo' is \"NVFP4_AWQ\"; expected \"FP8\" or \"NVFP4\""));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": "x"})")),
              HasSubstr(R"('quant_method' is "x"; expected "mxfp4", "compressed-tensors", "fp8", )"
                        R"("modelopt", "awq" or "gptq")"));
  EXPECT_THAT(error_with(json::parse(R"({"quant_method": 8})")), HasSubstr("'quant_method' is 8; expected"));
}

}  // namespace
}  // namespace nibble
