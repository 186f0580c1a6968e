#include "model/config.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// The config.json that was released with gpt-oss-20b.
const char kReleased20b[] = R"({
  "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": 200002,
  "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
  "initializer_range": 0.02, "intermediate_size": 2880,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
    "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
    "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
  "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false,
  "pad_token_id": 199999,
  "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
    "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
    "rope_type": "yarn", "truncate": false},
  "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
  "tie_word_embeddings": false, "transformers_version": "4.55.0.dev0", "use_cache": true, "vocab_size": 201088})";

Config parse(const json& object) { return parse_config(object.dump(), "config.json"); }
json released() { return json::parse(kReleased20b); }

TEST(Config, TheReleasedFileOfThe20bIsTheNamedConfiguration) {
  const Config config = parse(released());
  EXPECT_EQ(config, *named_config("gpt-oss-20b"));
  EXPECT_EQ(config.num_layers, 24);
  EXPECT_EQ(config.hidden, 2880);
  EXPECT_EQ(config.intermediate, 2880);
  EXPECT_EQ(config.num_heads, 64);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.num_experts, 32);
  EXPECT_EQ(config.experts_per_token, 4);
  EXPECT_EQ(config.vocab, 201088);
  EXPECT_EQ(config.window, 128);
  EXPECT_EQ(config.layer_kinds[0], LayerKind::kSliding);
  EXPECT_EQ(config.layer_kinds[23], LayerKind::kFull);
  EXPECT_EQ(config.rms_eps, 1e-5f);
  EXPECT_EQ(config.swiglu_limit, 7.0f);
  EXPECT_EQ(config.rope, (RopeConfig{150000, 32, 32, 1, 4096, false}));
  EXPECT_EQ(config.max_context, 131072);
  EXPECT_EQ(config.eos, std::vector<TokenId>{200002});
}

TEST(Config, The120bDiffersInLayersAndExpertsAlone) {
  Config config = *named_config("gpt-oss-120b");
  EXPECT_EQ(config.num_layers, 36);
  EXPECT_EQ(config.num_experts, 128);
  ASSERT_EQ(config.layer_kinds.size(), 36u);
  config.num_layers = 24;
  config.num_experts = 32;
  config.layer_kinds.resize(24);
  EXPECT_EQ(config, *named_config("gpt-oss-20b"));
  EXPECT_EQ(named_config("gpt-oss-7b"), std::nullopt);
}

TEST(Config, NewerTransformersPutRopeThetaIntoRopeParameters) {
  json object = released();
  object["rope_parameters"] = object["rope_scaling"];
  object["rope_parameters"]["rope_theta"] = 150000.0;
  object.erase("rope_scaling");
  object.erase("rope_theta");
  EXPECT_EQ(parse(object), *named_config("gpt-oss-20b"));
}

json nested_rope(double sliding_factor) {
  json object = released(), rope = object["rope_scaling"];
  rope["rope_theta"] = 150000.0;
  object["rope_parameters"] = {{"full_attention", rope}, {"sliding_attention", rope}};
  object["rope_parameters"]["sliding_attention"]["factor"] = sliding_factor;
  object.erase("rope_scaling");
  object.erase("rope_theta");
  return object;
}

TEST(Config, RopeParametersMayBeGivenForEachKindOfLayerIfTheyAreEqual) {
  EXPECT_EQ(parse(nested_rope(32)), *named_config("gpt-oss-20b"));
  EXPECT_THAT(error_of([&] { parse(nested_rope(16)); }), HasSubstr("the same as 'sliding_attention'"));
  json half = nested_rope(32);
  half["rope_parameters"].erase("full_attention");
  EXPECT_THAT(error_of([&] { parse(half); }), HasSubstr("'full_attention' is missing"));
  json more = nested_rope(32);
  more["rope_parameters"]["chunked_attention"] = 1;
  EXPECT_THAT(error_of([&] { parse(more); }), HasSubstr("unknown field \"chunked_attention\""));
}

TEST(Config, AByteOrderMarkIsSkipped) {
  EXPECT_EQ(parse_config("\xEF\xBB\xBF" + released().dump(), "x"), *named_config("gpt-oss-20b"));
}

TEST(Config, OpenAisSpellingSaysTheSame) {
  const std::string original = R"({"num_hidden_layers": 24, "num_experts": 32, "experts_per_token": 4,
    "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "swiglu_limit": 7.0, "head_dim": 64,
    "num_attention_heads": 64, "num_key_value_heads": 8, "sliding_window": 128, "initial_context_length": 4096,
    "rope_theta": 150000, "rope_scaling_factor": 32.0, "rope_ntk_alpha": 1, "rope_ntk_beta": 32})";
  Config expected = *named_config("gpt-oss-20b");
  expected.eos.clear();  // OpenAI's file has no EOS token
  EXPECT_EQ(parse_config(original, "original/config.json"), expected);

  const std::string more = R"({"rope_attn_factor": 2, )" + original.substr(1);
  EXPECT_THAT(error_of([&] { parse_config(more, "original/config.json"); }),
              HasSubstr("unknown field \"rope_attn_factor\""));
}

TEST(Config, WithoutLayerTypesEvenLayersSlide) {
  json object = released();
  object.erase("layer_types");
  EXPECT_EQ(parse(object), *named_config("gpt-oss-20b"));
}

TEST(Config, NumbersOnWhichEveryImplementationAgreesMayBeAbsent) {
  json object = released();
  object.erase("swiglu_limit");
  object["rope_scaling"].erase("beta_fast");
  object["rope_scaling"].erase("beta_slow");
  EXPECT_EQ(parse(object), *named_config("gpt-oss-20b"));
}

TEST(Config, FieldsOfTrainingAndBookkeepingAreIgnored) {
  json object = released();
  object["unsloth_version"] = "2025.8.1";
  object["dtype"] = "bfloat16";
  object["id2label"] = {{"0", "LABEL_0"}};
  object["not_yet_known"] = nullptr;  // null means that the field is absent
  EXPECT_EQ(parse(object), *named_config("gpt-oss-20b"));
}

TEST(Config, PlainRopeIsFactorOne) {
  json object = released();
  object["rope_scaling"] = {{"rope_type", "default"}};
  EXPECT_EQ(parse(object).rope.factor, 1);
  EXPECT_EQ(parse(object).rope.theta, 150000);
}

TEST(Config, WhatIsWrittenIsReadBackEqual) {
  Config odd = small_config();
  odd.rms_eps = 3.3e-6f;
  odd.swiglu_limit = 5.7f;
  odd.rope = {12345.678, 7.25, 17.5, 1.125, 2048, true};
  odd.max_context = 4321;
  Config plain = odd;
  plain.rope.factor = 1;
  plain.eos = {};
  for (const Config& config :
       {small_config(), odd, plain, *named_config("gpt-oss-20b"), *named_config("gpt-oss-120b")})
    EXPECT_EQ(parse_config(to_json(config), "written"), config) << to_json(config);
}

TEST(Config, FloatsAreWrittenAsPeopleWriteThem) {
  EXPECT_THAT(to_json(*named_config("gpt-oss-20b")), HasSubstr("\"rms_norm_eps\": 1e-05,"));
}

TEST(Config, TheCommittedModelsAreRead) {
  const std::string root = test::source_path();
  const Config tiny = read_config(root + "/models/tiny-gpt-oss/config.json");
  EXPECT_EQ(tiny.num_layers, 6);
  EXPECT_EQ(tiny.hidden, 256);
  EXPECT_EQ(tiny.num_experts, 16);
  EXPECT_EQ(tiny.vocab, 4096);
  const Config b = read_config(root + "/tests/golden/random/b/config.json");
  EXPECT_EQ(b.layer_kinds, (std::vector{LayerKind::kFull, LayerKind::kSliding, LayerKind::kFull}));
  EXPECT_EQ(b.rope, (RopeConfig{10000, 8, 16, 1, 1024, false}));
  EXPECT_EQ(b.window, 100);
  EXPECT_EQ(b.experts_per_token, 3);
}

struct Refusal {
  const char* description;
  std::function<void(json&)> change;  // changes the released file
  const char* message;                // part of the message
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.description; }

class ConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefuses, WithOneLineThatNamesFileFieldAndRemedy) {
  json object = released();
  GetParam().change(object);
  const std::string error = error_of([&] { parse(object); });
  EXPECT_THAT(error, HasSubstr(GetParam().message));
  EXPECT_THAT(error, StartsWith("config.json: "));
  EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
  EXPECT_LT(error.size(), 400u);
}

#define SETS(field, ...) [](json& o) { o[field] = __VA_ARGS__; }
#define SETS_ROPE(field, ...) [](json& o) { o["rope_scaling"][field] = __VA_ARGS__; }

INSTANTIATE_TEST_SUITE_P(
    Sizes, ConfigRefuses,
    testing::Values(
        Refusal{"no layers", SETS("num_hidden_layers", 0),
                "'num_hidden_layers' is 0; expected a whole number from 1"},
        Refusal{"no experts", SETS("num_local_experts", 0),
                "'num_local_experts' is 0; expected a whole number"},
        Refusal{"more chosen than there are", SETS("num_local_experts", 3),
                "'num_experts_per_tok' is 4; expected a "
                "whole number from 1 to 3"},
        Refusal{"a negative width", SETS("hidden_size", -2880), "'hidden_size' is -2880"},
        Refusal{"a width of half blocks", SETS("hidden_size", 2896),
                "'hidden_size' is 2896; expected a multiple of 32"},
        Refusal{"an expert of half blocks", SETS("intermediate_size", 100), "'intermediate_size' is 100"},
        Refusal{"heads that do not divide", SETS("num_key_value_heads", 7),
                "'num_key_value_heads' is 7; expected a "
                "divisor of the 64"},
        Refusal{"an odd head", SETS("head_dim", 45), "'head_dim' is 45; expected an even number"},
        Refusal{"no head dimension", [](json& o) { o.erase("head_dim"); }, "'head_dim' is missing"},
        Refusal{"a vocabulary of 2^40", SETS("vocab_size", 1ull << 40), "'vocab_size' is 1099511627776"},
        Refusal{"2^64 - 1 layers", SETS("num_hidden_layers", ~0ull),
                "'num_hidden_layers' is 18446744073709551615"},
        Refusal{"a text for a number", SETS("hidden_size", "2880"), "'hidden_size' is \"2880\""},
        Refusal{"a fraction of a layer", SETS("num_hidden_layers", 24.5), "'num_hidden_layers' is 24.5"},
        Refusal{"null for a number", SETS("vocab_size", nullptr), "'vocab_size' is missing"},
        Refusal{"two spellings that differ", SETS("experts_per_token", 2),
                "but 'experts_per_token', which means the "
                "same, is 2"},
        Refusal{"no window", [](json& o) { o.erase("sliding_window"); }, "'sliding_window' is missing"},
        Refusal{"a window of nothing", SETS("sliding_window", 0), "'sliding_window' is 0"},
        Refusal{"a context of nothing", SETS("max_position_embeddings", 0), "'max_position_embeddings' is 0"},
        Refusal{"epsilon 0", SETS("rms_norm_eps", 0), "'rms_norm_eps' is 0"},
        Refusal{"a limit below 0", SETS("swiglu_limit", -7.0), "'swiglu_limit' is -7.0"}));

INSTANTIATE_TEST_SUITE_P(
    Architecture, ConfigRefuses,
    testing::Values(
        Refusal{"another model", SETS("model_type", "llama"),
                "'model_type' is \"llama\"; expected \"gpt_oss\""},
        Refusal{"another head", SETS("architectures", {"GptOssForSequenceClassification"}),
                "'architectures' is"},
        Refusal{"tied embeddings", SETS("tie_word_embeddings", true), "'tie_word_embeddings' is true"},
        Refusal{"no attention bias", SETS("attention_bias", false), "'attention_bias' is false"},
        Refusal{"another activation", SETS("hidden_act", "gelu"), "'hidden_act' is \"gelu\""},
        Refusal{"another quantisation", SETS("quantization_config", {{"quant_method", "gptq"}}),
                "'quantization_config': this is a GPTQ checkpoint: nibble does not read its weights."},
        Refusal{"an unknown quantisation", SETS("quantization_config", {{"quant_method", "q3"}}),
                "'quantization_config': 'quant_method' is \"q3\"; expected \"mxfp4\""},
        Refusal{"layers of another kind", SETS("num_nextn_predict_layers", 1),
                "'num_nextn_predict_layers' is 1; expected 0"},
        Refusal{"a quantisation that is a text", SETS("quantization_config", "mxfp4"), "expected an object"},
        Refusal{"too few layer types", [](json& o) { o["layer_types"].erase(0); },
                "expected a list of 24 entries, each \"sliding_attention\" or \"full_attention\""},
        Refusal{"an unknown layer type", [](json& o) { o["layer_types"][3] = "chunked_attention"; },
                "'layer_types' is"},
        Refusal{"layer types that are no list", SETS("layer_types", "full_attention"), "'layer_types' is"},
        Refusal{"a stop token outside", SETS("eos_token_id", 201088),
                "'eos_token_id' is 201088; expected token ids"},
        Refusal{"a negative stop token", SETS("eos_token_id", {200002, -1}),
                "'eos_token_id' is [200002,-1]"}));

#define LACKS(field) [](json& o) { o.erase(field); }

INSTANTIATE_TEST_SUITE_P(
    Completeness, ConfigRefuses,
    testing::Values(
        Refusal{"no model type", LACKS("model_type"), "'model_type' is missing; expected \"gpt_oss\""},
        Refusal{"no epsilon", LACKS("rms_norm_eps"), "'rms_norm_eps' is missing"},
        Refusal{"no number of chosen experts",
                [](json& o) {
                  o.erase("num_experts_per_tok");
                  o.erase("experts_per_token");
                },
                "'num_experts_per_tok' is missing"},
        Refusal{"a scale of attention", SETS("attention_scale", 0.1), "unknown field \"attention_scale\""},
        Refusal{"experts that are not known", SETS("num_shared_experts", 1),
                "unknown field \"num_shared_experts\", which may change what the model computes"},
        Refusal{"two known names as one", SETS("top_k top_p", 1), "unknown field \"top_k top_p\""},
        Refusal{"no name", SETS("", 1), "unknown field \"\""}));

INSTANTIATE_TEST_SUITE_P(
    Rope, ConfigRefuses,
    testing::Values(
        Refusal{"no rope at all", [](json& o) { o.erase("rope_scaling"); }, "'rope_parameters' is missing"},
        Refusal{"no theta", [](json& o) { o.erase("rope_theta"); }, "'rope_theta' is missing"},
        Refusal{"an unknown type", SETS_ROPE("rope_type", "llama3"),
                "'rope_scaling': 'rope_type' is \"llama3\""},
        Refusal{"no type", [](json& o) { o["rope_scaling"].erase("rope_type"); }, "'type' is missing"},
        Refusal{"no factor", [](json& o) { o["rope_scaling"].erase("factor"); }, "'factor' is missing"},
        Refusal{"no word about truncation", [](json& o) { o["rope_scaling"].erase("truncate"); },
                "'truncate' is missing; expected false, as in gpt-oss, or true"},
        Refusal{"plain RoPE with a factor", SETS_ROPE("rope_type", "default"),
                "'factor' is 32.0; expected 1"},
        Refusal{"a factor that shrinks", SETS_ROPE("factor", 0.5),
                "'factor' is 0.5; expected a number from 1"},
        Refusal{"another magnitude", SETS_ROPE("attention_factor", 1.0), "expected 1.34657"},
        Refusal{"a field that changes the result", SETS_ROPE("mscale", 0.707), "unknown field \"mscale\""},
        Refusal{"half a head turned", SETS_ROPE("partial_rotary_factor", 0.5),
                "'partial_rotary_factor' is 0.5"},
        Refusal{"truncation that is no truth value", SETS_ROPE("truncate", 0),
                "'truncate' is 0; expected true or"},
        Refusal{"corners in the wrong order", SETS_ROPE("beta_slow", 64.0),
                "YaRN would blend from pair 8.093 to pair"},
        Refusal{"a corner before the first pair", SETS_ROPE("original_max_position_embeddings", 128),
                "YaRN would blend"},
        Refusal{"two spellings that differ",
                SETS("rope_parameters", {{"rope_type", "yarn"},
                                         {"rope_theta", 150000},
                                         {"factor", 8.0},
                                         {"truncate", false},
                                         {"original_max_position_embeddings", 4096}}),
                "'rope_scaling' is {"},
        Refusal{"two thetas that differ", SETS_ROPE("rope_theta", 10000),
                "'rope_theta' is 150000; expected 10000"}));

TEST(Config, TextThatIsNoConfigurationIsRefused) {
  const auto error = [](const std::string& text) { return error_of([&] { parse_config(text, "x.json"); }); };
  EXPECT_THAT(error(""), StartsWith("x.json: invalid JSON: "));
  EXPECT_THAT(error("{\"a\": 1,}"), StartsWith("x.json: invalid JSON: "));
  EXPECT_THAT(error("{\"a\": \"\xFF\"}"), StartsWith("x.json: invalid UTF-8: "));
  EXPECT_THAT(error("{\"head_dim\": 1e999}"), StartsWith("x.json: bad number: "));
  EXPECT_THAT(error(std::string(40, '[') + std::string(40, ']')),
              StartsWith("x.json: JSON nested too deep: "));
  EXPECT_EQ(error("[1]"), "x.json: expected an object {...}, not [1]");
  EXPECT_EQ(error("{\"head_dim\": 64, \"head_dim\": 45}"), "x.json: duplicate field \"head_dim\"");
  EXPECT_EQ(error("{}"), "x.json: 'model_type' is missing; expected \"gpt_oss\"");
}

TEST(Config, ALongValueIsShownInPartAndOnOneLine) {
  json object = released();
  object["model_type"] = "two\nlines";
  EXPECT_THAT(error_of([&] { parse(object); }), HasSubstr("'model_type' is \"two\\nlines\";"));
  std::string long_text;
  // Characters of 2 bytes, which the cut of the message must not split.
  for (int i = 0; i < 100; ++i) long_text += "\xC3\xA9";
  object["model_type"] = long_text;
  EXPECT_EQ(error_of([&] { parse(object); }),
            "config.json: 'model_type' is \"" + long_text.substr(0, 78) + "...; expected \"gpt_oss\"");
}

}  // namespace
}  // namespace nibble
