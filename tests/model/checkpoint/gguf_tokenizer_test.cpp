#include "model/checkpoint/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/files/mapped_file.h"
#include "core/numbers/random.h"
#include "formats/gguf_writer.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"
#include "text/tokenizer.h"

namespace nibble {
namespace {

using testing::HasSubstr;

const std::string kTinyTokenizer = test::source_path("models/tiny-gpt-oss/tokenizer.json");
constexpr int kTinyVocab{4096};

// Returns the tokenizer.json that is made from a GGUF file with these metadata.
std::string through_gguf(const GgufMetadata& metadata) {
  const TestFolder folder;
  GgufWriter(folder.path() / "x.gguf", metadata, {}).finish();
  return tokenizer_json(open_gguf(folder.path() / "x.gguf"));
}

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

TEST(GgufTokenizer, TheBundledVocabularyIsTheSameFromEitherFile) {
  const Tokenizer original = Tokenizer::open(kTinyTokenizer);
  GgufMetadata metadata;
  add_tokenizer(read_text_file(kTinyTokenizer), "tiny", kTinyVocab, metadata);
  const Tokenizer other = Tokenizer::from_json(through_gguf(metadata), "gguf");

  ASSERT_EQ(other.num_tokens(), original.num_tokens());
  for (TokenId id = 0; id < original.num_tokens(); ++id) {
    EXPECT_EQ(other.bytes(id), original.bytes(id)) << id;
    EXPECT_EQ(other.is_special(id), original.is_special(id)) << id;
  }
  std::vector<std::string> texts{"Grüße, world! 12345 don't\n\n\tÇa va?", "<|start|>user<|message|>Hi<|end|>",
                                 "x\xFF\xC3 \xE2\x82", "    spaces   and\r\nlines"};
  const std::string prose =
      read_text_file(test::source_path("tests/golden/eval/prose.txt")).substr(0, 50'000);
  texts.push_back(prose);
  for (const std::string& text : texts)
    for (const SpecialTokens special : {SpecialTokens::kOrdinary, SpecialTokens::kRecognise})
      EXPECT_EQ(other.encode(text, special), original.encode(text, special)) << text.substr(0, 60);
}

TEST(GgufTokenizer, AddedTokensThatAreNotSpecialAreUserDefined) {
  const std::string added =
      replaced(read_text_file(kTinyTokenizer), "\"added_tokens\":[",
               R"("added_tokens":[{"id": 4090, "content": "<tool>", "special": false},)");
  const Tokenizer original = Tokenizer::from_json(added, "tiny");
  GgufMetadata metadata;
  add_tokenizer(added, "tiny", kTinyVocab, metadata);
  const Tokenizer other = Tokenizer::from_json(through_gguf(metadata), "gguf");
  for (const Tokenizer* tokenizer : {&original, &other}) {
    EXPECT_FALSE(tokenizer->is_special(4090));
    EXPECT_EQ(tokenizer->encode("<tool>", SpecialTokens::kOrdinary), std::vector<TokenId>{4090});
    EXPECT_EQ(tokenizer->special("<|start|>"), 4072);
  }
}

TEST(GgufTokenizer, WhatIsSaidTwiceIsTheSame) {
  GgufMetadata metadata, again;
  add_tokenizer(read_text_file(kTinyTokenizer), "tiny", kTinyVocab, metadata);
  add_tokenizer(through_gguf(metadata), "gguf", kTinyVocab, again);
  EXPECT_EQ(again.bytes(), metadata.bytes());
}

TEST(GgufTokenizer, VocabulariesThatGgufHasNoWordForAreRefused) {
  GgufMetadata metadata;
  const std::string json = read_text_file(kTinyTokenizer);
  EXPECT_THAT(error_of([&] { add_tokenizer(replaced(json, "{1,3}", ""), "tiny", kTinyVocab, metadata); }),
              HasSubstr("split expression is not o200k's"));
  EXPECT_THAT(error_of([&] { add_tokenizer(json, "tiny", 4000, metadata); }),
              HasSubstr("the model has 4000 rows"));
  EXPECT_THAT(error_of([&] { add_tokenizer("{}", "tiny", kTinyVocab, metadata); }), HasSubstr("tiny"));
}

TEST(GgufTokenizer, OtherVocabulariesAreRefusedByName) {
  const auto error_with = [](std::string_view model, std::string_view pre,
                             const std::vector<std::string>& tokens, const std::vector<int32_t>& types,
                             const std::vector<std::string>& merges) {
    GgufMetadata metadata;
    metadata.add("tokenizer.ggml.model", model);
    metadata.add("tokenizer.ggml.pre", pre);
    metadata.add("tokenizer.ggml.tokens", tokens);
    metadata.add("tokenizer.ggml.token_type", types);
    metadata.add("tokenizer.ggml.merges", merges);
    return error_of([&] { through_gguf(metadata); });
  };
  EXPECT_EQ(error_with("gpt2", "gpt-4o", {"a"}, {1}, {"a b"}), "accepted");
  EXPECT_THAT(error_with("llama", "gpt-4o", {"a"}, {1}, {}),
              HasSubstr("model' is \"llama\"; expected \"gpt2\""));
  EXPECT_THAT(error_with("gpt2", "qwen2", {"a"}, {1}, {}),
              HasSubstr("pre' is \"qwen2\"; expected \"gpt-4o\""));
  EXPECT_THAT(error_with("gpt2", "gpt-4o", {"a", "b"}, {1}, {}), HasSubstr("1 entries for 2 tokens"));
  EXPECT_THAT(error_with("gpt2", "gpt-4o", {"a"}, {6}, {}), HasSubstr("is 6 for token 0"));
  EXPECT_THAT(error_with("gpt2", "gpt-4o", {"a\xFF"}, {1}, {}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_with("gpt2", "gpt-4o", {"a"}, {1}, {"ab"}), HasSubstr("no space"));
}

TEST(GgufTokenizer, AFileWithoutVocabularySaysWhatDoesWithout) {
  GgufMetadata metadata;
  add_no_tokenizer(metadata);
  EXPECT_THAT(error_of([&] { through_gguf(metadata); }), HasSubstr("--tokenizer"));
}

}  // namespace
}  // namespace nibble
