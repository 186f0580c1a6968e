// Tests how the files of draft heads are read: three formats of one network, and files that are refused.
#include "model/draft_head/draft_head.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>

#include "core/files/mapped_file.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::filesystem::path head_folder(const char* spelling) {
  return std::filesystem::path(test::source_path("models/tiny-gpt-oss-eagle3")) / spelling;
}
Config tiny_config() {
  return read_config(std::filesystem::path(test::source_path("models/tiny-gpt-oss")) / "config.json");
}
json config_of(const char* spelling) {
  return json::parse(read_text_file(head_folder(spelling) / "config.json"));
}
DraftHeadConfig parse_head(const json& object) {
  return parse_draft_head_config(object.dump(), "config.json", tiny_config());
}
std::string head_refusal(const char* spelling, const std::function<void(json&)>& change) {
  json object = config_of(spelling);
  change(object);
  return error_of([&] { parse_head(object); });
}

TEST(DraftHeadConfig, NamesLayersByWhatComesOutOfThemInEverySpelling) {
  // The files contain [1, 3, 4], [1, 2, 4] and [2, 4, 5]. The third names the layer after each tapped one.
  EXPECT_EQ(parse_head(config_of("specforge")).taps, (std::array{1, 3, 4}));
  EXPECT_EQ(parse_head(config_of("modelopt")).taps, (std::array{1, 2, 4}));
  EXPECT_EQ(parse_head(config_of("speculators")).taps, (std::array{1, 3, 4}));
}

TEST(DraftHeadConfig, WithoutLayersTakesThoseOfTheHeadsMakers) {
  json object = config_of("specforge");
  object.erase("eagle_config");
  Config model = *named_config("gpt-oss-120b");
  object["hidden_size"] = model.hidden;
  object["vocab_size"] = model.vocab;
  EXPECT_EQ(parse_draft_head_config(object.dump(), "config.json", model).taps, (std::array{1, 17, 32}));
  model.num_layers = 24;
  EXPECT_EQ(parse_draft_head_config(object.dump(), "config.json", model).taps, (std::array{1, 11, 20}));
}

TEST(DraftHeadConfig, HasTheNormsThatTheFileSays) {
  const DraftHeadConfig plain = parse_head(config_of("specforge"));
  EXPECT_FALSE(plain.norm_before_fc || plain.norm_before_residual || plain.norm_output);
  const DraftHeadConfig speculators = parse_head(config_of("speculators"));
  EXPECT_TRUE(speculators.norm_before_fc && speculators.norm_before_residual);
  json object = config_of("modelopt");
  object["eagle_config"]["norm_before_fc"] = true;  // newer heads of Model-Optimizer have it here
  EXPECT_TRUE(parse_head(object).norm_before_fc);
}

TEST(DraftHeadConfig, Llama3RopeKeepsFastTurnsAndDividesSlowOnes) {
  const DraftHeadConfig config = parse_head(config_of("modelopt"));
  ASSERT_TRUE(config.llama3.has_value());
  EXPECT_EQ(*config.llama3, (Llama3Rope{8, 1, 4, 1024}));
  const std::vector<float> frequencies = rope_frequencies(config).frequencies;
  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[31], static_cast<float>(std::pow(500000.0, -62.0 / 64) / 8));
}

TEST(DraftHeadConfig, WhatIsUnknownOrOfAnotherModelIsRefusedByName) {
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c["hidden_size"] = 512; }),
              HasSubstr("'hidden_size' is 512; expected 256 (the model's value)"));
  EXPECT_THAT(head_refusal("modelopt", [](json& c) { c["vocab_size"] = 201088; }),
              HasSubstr("'vocab_size' is 201088; expected 4096 (the model's value)"));
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c["new_norm"] = true; }),
              HasSubstr("unknown field \"new_norm\""));
  EXPECT_THAT(head_refusal("modelopt", [](json& c) { c["eagle_config"]["new_norm"] = true; }),
              HasSubstr("unknown field \"new_norm\""));
  EXPECT_THAT(head_refusal("speculators", [](json& c) { c["new_norm"] = true; }),
              HasSubstr("unknown field \"new_norm\""));
  EXPECT_THAT(head_refusal("speculators", [](json& c) { c["fc_norm"] = true; }),
              HasSubstr("'fc_norm' is true"));
  EXPECT_THAT(head_refusal("modelopt", [](json& c) { c["eagle_config"]["use_aux_hidden_state"] = false; }),
              HasSubstr("'use_aux_hidden_state' is false"));
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c["num_hidden_layers"] = 2; }),
              HasSubstr("'num_hidden_layers' is 2; expected 1"));
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c["architectures"] = {"LlamaForCausalLM"}; }),
              HasSubstr("'architectures'"));
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c.erase("architectures"); }),
              HasSubstr("'architectures'"));
  EXPECT_THAT(head_refusal("specforge",
                           [](json& c) {
                             c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
                           }),
              HasSubstr("'rope_type'"));
  EXPECT_THAT(head_refusal("specforge", [](json& c) { c["draft_vocab_size"] = 5000; }),
              HasSubstr("'draft_vocab_size' is 5000; expected a whole number from 1 to 4096"));
  for (const json& layers : {json{1, 3}, json{3, 1, 4}, json{1, 3, 6}, json{1, 3, 3}, json("all")})
    EXPECT_THAT(
        head_refusal("specforge",
                     [&](json& c) { c["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = layers; }),
        HasSubstr("expected 3 ascending layers from 0 to 5"));
  EXPECT_THAT(head_refusal("speculators",
                           [](json& c) {
                             c["eagle_aux_hidden_state_layer_ids"] = {0, 3, 4};
                           }),
              HasSubstr("expected 3 ascending layers from 1 to 6"));
}

// A copy of a head. Tests can change its tensors and configuration.
class CopiedHead {
 public:
  explicit CopiedHead(const char* spelling)
      : file_(read_text_file(head_folder(spelling) / "model.safetensors", size_t{1} << 30)),
        config_(config_of(spelling)) {}
  json& config() { return config_; }
  // Replaces text in the header by other text of the same length.
  CopiedHead& replace(const std::string& from, const std::string& to) {
    EXPECT_EQ(from.size(), to.size());
    const size_t at = file_.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    file_.replace(at, from.size(), to);
    return *this;
  }
  CopiedHead& cut(size_t num_bytes) {
    file_.resize(file_.size() - num_bytes);
    return *this;
  }
  // Sets an element of d2t, whose position is in the header.
  CopiedHead& set_d2t(size_t index, int64_t difference) {
    uint64_t length{0};
    std::memcpy(&length, file_.data(), sizeof(length));
    const json header = json::parse(file_.substr(sizeof(length), length));
    const size_t begin = sizeof(length) + length + header["d2t"]["data_offsets"][0].get<size_t>();
    std::memcpy(file_.data() + begin + index * sizeof(difference), &difference, sizeof(difference));
    return *this;
  }
  std::string refusal() const {
    const TestFolder folder;
    std::ofstream(folder.path() / "config.json") << config_.dump();
    std::ofstream(folder.path() / "model.safetensors", std::ios::binary) << file_;
    return error_of([&] { open_draft_head(folder.path(), tiny_config()); });
  }

 private:
  std::string file_;
  json config_;
};

TEST(OpenDraftHead, MapsDraftIdsToTheModels) {
  const Config model = tiny_config();
  const auto cut = open_draft_head(head_folder("specforge"), model);
  ASSERT_EQ(cut->tokens.size(), 1024u);
  EXPECT_TRUE(std::is_sorted(cut->tokens.begin(), cut->tokens.end()));
  EXPECT_GT(cut->tokens.back(), 1023);
  const auto whole = open_draft_head(head_folder("modelopt"), model);
  ASSERT_EQ(whole->tokens.size(), 4096u);
  EXPECT_EQ(whole->tokens[4095], 4095);
  EXPECT_TRUE(whole->embedding.is_gone()) << "the file has none, so it is the model's";
}

TEST(OpenDraftHead, WhatDoesNotFitIsRefusedInALine) {
  EXPECT_THAT(error_of([] { open_draft_head("/nowhere", tiny_config()); }),
              HasSubstr("no config.json in this folder"));
  EXPECT_THAT(CopiedHead("specforge").cut(1000).refusal(), HasSubstr("model.safetensors"));
  EXPECT_THAT(CopiedHead("specforge").replace("fc.weight", "fx.weight").refusal(),
              HasSubstr("tensor 'fc.weight' is missing (15 tensors"));
  EXPECT_THAT(
      CopiedHead("specforge").replace("midlayer.self_attn.q_proj", "midlayer.self_attn.x_proj").refusal(),
      HasSubstr("not an EAGLE-3 head"));
  EXPECT_THAT(CopiedHead("speculators").replace("\"d2t\"", "\"d3t\"").refusal(),
              HasSubstr("tensor 'd2t' is missing: the head has 1024 of the model's 4096 tokens"));
  EXPECT_THAT(CopiedHead("specforge").set_d2t(7, 4089).refusal(),
              HasSubstr("'d2t' maps draft id 7 outside the model's 4096 tokens"));
  EXPECT_THAT(CopiedHead("specforge").set_d2t(7, -8).refusal(), HasSubstr("outside the model's 4096 tokens"));
  CopiedHead narrow("specforge");
  narrow.config()["intermediate_size"] = 512;
  EXPECT_THAT(narrow.refusal(), HasSubstr("config.json requires"));
  CopiedHead with_norm("modelopt");
  with_norm.config()["eagle_config"]["norm_before_fc"] = true;
  EXPECT_THAT(with_norm.refusal(), HasSubstr("tensor 'input_norm.weight' is missing"));
  CopiedHead without_norm("speculators");  // older engines ignored this field
  without_norm.config()["norm_before_fc"] = false;
  EXPECT_THAT(without_norm.refusal(), HasSubstr("unexpected tensor 'input_norm.weight'"));
}

}  // namespace
}  // namespace nibble
