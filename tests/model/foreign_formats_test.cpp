// Tests that checkpoints of other programs are refused with the name of their format, whichever part of them
// is read first.
#include "model/foreign_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/text/json.h"
#include "model/config.h"
#include "tests/error_of.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string error_with(const char* field, const char* quantization) {
  json object = json::parse(to_json(small_config()));
  object[field] = json::parse(quantization);
  return error_of([&] { parse_config(object.dump(), "config.json"); });
}

TEST(ForeignFormats, AnMlxCheckpointIsNamedWithItsGroups) {
  const char* affine = R"({"group_size": 64, "bits": 3})";
  for (const char* field : {"quantization", "quantization_config"})
    EXPECT_EQ(error_with(field, affine),
              fmt::format("config.json: '{}': this is an MLX checkpoint with 3-bit groups "
                          "of 64: {}",
                          field, kInsteadOfForeign));
  EXPECT_THAT(error_with("quantization", R"({"group_size": 16, "bits": 4, "mode": "nvfp4"})"),
              HasSubstr("an MLX checkpoint with 4-bit groups of 16 (nvfp4): nibble"));
  // Text of the file is shown only if it is a known word.
  EXPECT_THAT(error_with("quantization", R"({"group_size": 32, "bits": 4, "mode": "x\ny"})"),
              HasSubstr("an MLX checkpoint with 4-bit groups of 32: nibble"));
}

TEST(ForeignFormats, MlxGroupsThatAreReadAreAcceptedAndOneLayerWithOthersIsNamed) {
  for (const char* read :
       {R"({"group_size": 64, "bits": 4})", R"({"group_size": 32, "bits": 8, "mode": "affine"})",
        R"({"group_size": 32, "bits": 4, "mode": "mxfp4", "model.layers.0.mlp.router":
            {"group_size": 64, "bits": 8}, "lm_head": false})"})
    for (const char* field : {"quantization", "quantization_config"})
      EXPECT_EQ(error_with(field, read), "accepted") << read;
  EXPECT_THAT(error_with("quantization",
                         R"({"group_size": 64, "bits": 4, "lm_head": {"group_size": 64, "bits": 6}})"),
              HasSubstr("'lm_head': this is an MLX checkpoint with 6-bit groups of 64: nibble"));
}

TEST(ForeignFormats, AMethodOfQuantisationIsNamed) {
  EXPECT_THAT(error_with("quantization_config", R"({"quant_method": "awq", "bits": 3, "group_size": 128})"),
              HasSubstr("this is an AWQ checkpoint with 3-bit groups of 128: nibble"));
  EXPECT_THAT(error_with("quantization_config", R"({"quant_method": "gptq", "bits": 8, "group_size": -1})"),
              HasSubstr("this is a GPTQ checkpoint with 8-bit weights: nibble"));
  EXPECT_THAT(error_with("quantization_config", R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"),
              HasSubstr("this is a bitsandbytes checkpoint with 4-bit weights: nibble"));
  EXPECT_THAT(error_with("quantization_config", R"({"quant_method": "quark"})"),
              HasSubstr("this is an AMD Quark checkpoint: nibble"));
}

TEST(ForeignFormats, TensorsSayWhoWroteThem) {
  EXPECT_EQ(foreign_writer("model.layers.0.self_attn.q_proj.qweight"), "a GPTQ or AWQ checkpoint");
  EXPECT_EQ(foreign_writer("model.layers.0.mlp.experts.gate_proj.scales"), "an MLX checkpoint");
  EXPECT_EQ(foreign_writer("model.layers.0.self_attn.q_proj.weight.absmax"), "a bitsandbytes checkpoint");
  for (const TensorSpec& spec : tensor_specs(small_config()))
    EXPECT_EQ(foreign_writer(spec.name), "") << spec.name;
}

}  // namespace
}  // namespace nibble
