// Tests which tokenizer.json files are accepted and which are refused. Each test makes one change to a small
// valid file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/text/o200k.h"
#include "text/tokenizer.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// Returns a file with the single bytes, " a" = 256, "ab" = 257 and " ab" = 258.
json small_file() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({char(byte)});
  tokens.insert(tokens.end(), {" a", "ab", " ab"});
  json file = test::tokenizer_json(tokens);
  file["added_tokens"] = {{{"id", 300}, {"content", "<|end|>"}, {"special", true}}};
  return file;
}

// Makes JSON arrays of pairs. Braces would make JSON objects instead.
json pairs(const std::vector<std::array<const char*, 2>>& list) {
  json merges = json::array();
  for (const auto& [left, right] : list) merges.push_back(json::array({left, right}));
  return merges;
}

Tokenizer load(const json& file) { return Tokenizer::from_json(file.dump(), "test.json"); }

std::vector<TokenId> ids(const json& file, std::string_view text) {
  return load(file).encode(text, SpecialTokens::kOrdinary);
}

std::string error(const json& file) {
  const std::string error = error_of([&] { load(file); });
  EXPECT_THAT(error, testing::AnyOf("accepted", testing::StartsWith("test.json: ")));
  return error;
}

std::string error_with(const std::string& place, const json& value) {
  json file = small_file();
  file[json::json_pointer(place)] = value;
  return error(file);
}

// As in transformers' tokenizers: an added token is recognised in any text, and decoding it gives its text.
TEST(TokenizerJson, AnAddedTokenThatIsNotSpecialIsTextWithItsOwnId) {
  json file = small_file();
  file["added_tokens"].push_back({{"id", 301}, {"content", "<tool>"}, {"special", false}});
  const Tokenizer tokenizer = load(file);
  for (const SpecialTokens special : {SpecialTokens::kOrdinary, SpecialTokens::kRecognise})
    EXPECT_THAT(tokenizer.encode("ab<tool> a", special), ElementsAre(257, 301, 256));
  EXPECT_EQ(tokenizer.encode("<|end|>", SpecialTokens::kOrdinary).size(), 7u);
  EXPECT_THAT(tokenizer.encode("<|end|><tool>", SpecialTokens::kRecognise), ElementsAre(300, 301));
  EXPECT_FALSE(tokenizer.is_special(301));
  EXPECT_EQ(tokenizer.special("<tool>"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{257, 301}), "ab<tool>");
}

// A token whose name looks like harmony's control tokens, <|...|>, must be special: otherwise users' text
// could contain control tokens.
TEST(TokenizerJson, ANameOfHarmonysFormIsSpecialWhateverTheFileSays) {
  json file = small_file();
  file["added_tokens"][0]["special"] = false;
  EXPECT_EQ(load(file).special("<|end|>"), 300);
  EXPECT_EQ(load(file).encode("<|end|>", SpecialTokens::kOrdinary).size(), 7u);
}

TEST(TokenizerJson, TheSmallFileLoads) {
  EXPECT_EQ(error(small_file()), "accepted");
  EXPECT_THAT(ids(small_file(), " ab"), ElementsAre(258));
  EXPECT_THAT(ids(small_file(), "ab a"), ElementsAre(257, 256));
  EXPECT_EQ(load(small_file()).num_tokens(), 301);
}

TEST(TokenizerJson, MergesAreTakenInTheFilesOrder) {
  json file = small_file();
  file["model"]["ignore_merges"] = false;
  file["model"]["merges"] = pairs({{"\u0120", "a"}, {"a", "b"}});
  EXPECT_THAT(ids(file, " ab"), ElementsAre(256, 'b'));
  file["model"]["merges"] = pairs({{"a", "b"}, {"\u0120", "a"}});  // merges in the reverse order of their ids
  EXPECT_THAT(ids(file, " ab"), ElementsAre(' ', 257));
}

TEST(TokenizerJson, IgnoreMergesTakesAWholePieceThatMergingWouldNotMake) {
  json file = small_file();
  file["model"]["merges"] = pairs({{"a", "b"}});
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(ids(file, " ab"), ElementsAre(258));
  file["model"]["ignore_merges"] = false;
  EXPECT_THAT(ids(file, " ab"), ElementsAre(' ', 257));
  file["model"].erase("ignore_merges");  // false is Hugging Face's default
  EXPECT_THAT(ids(file, " ab"), ElementsAre(' ', 257));
}

TEST(TokenizerJson, MergesMayBeWrittenAsOneString) {
  json file = small_file();
  file["model"]["merges"] = {"\u0120 a", "a b", "\u0120a b"};
  file["model"]["ignore_merges"] = false;
  EXPECT_THAT(ids(file, " ab"), ElementsAre(258));
}

TEST(TokenizerJson, TheExpressionIsTheFiles) {
  json file = small_file();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a";
  EXPECT_THAT(ids(file, " ab"), ElementsAre(' ', 'a', 'b'));
}

TEST(TokenizerJson, ASpecialTokenThatTheVocabularyListsTooIsNoTextToken) {
  json file = small_file();
  file["model"]["vocab"]["<|end|>"] = 300;
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[<a-z>|]+";
  const Tokenizer tokenizer = load(file);
  EXPECT_THAT(tokenizer.encode("<|end|>", SpecialTokens::kOrdinary),
              ElementsAre('<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_THAT(tokenizer.encode("<|end|>", SpecialTokens::kRecognise), ElementsAre(300));
}

TEST(TokenizerJson, PartsThatDoNothingMayBeWrittenOut) {
  EXPECT_EQ(error_with("/model/dropout", 0.0), "accepted");
  EXPECT_EQ(error_with("/model/continuing_subword_prefix", ""), "accepted");
  EXPECT_EQ(error_with("/model/end_of_word_suffix", ""), "accepted");
  EXPECT_EQ(error_with("/post_processor", nullptr), "accepted");
  EXPECT_EQ(error_with("/truncation", {{"max_length", 10}}), "accepted");
}

TEST(TokenizerJson, APipelineThatEncodesOtherwiseIsRefused) {
  using testing::HasSubstr;
  const std::string parts = "/pre_tokenizer/pretokenizers";
  EXPECT_THAT(error_with("/normalizer", {{"type", "NFC"}}), HasSubstr("/normalizer is set"));
  EXPECT_THAT(error_with("/pre_tokenizer", nullptr), HasSubstr("/pre_tokenizer/type must be a string"));
  EXPECT_THAT(error_with("/pre_tokenizer/type", "Metaspace"),
              HasSubstr("'Metaspace'; nibble supports only 'Sequence'"));
  EXPECT_THAT(error_with(parts, json::array({{{"type", "ByteLevel"}}})), HasSubstr("must have two parts"));
  EXPECT_THAT(error_with(parts + "/0/type", "Digits"), HasSubstr("'Digits'; nibble supports only 'Split'"));
  EXPECT_THAT(error_with(parts + "/0/behavior", "Removed"),
              HasSubstr("'Removed'; nibble supports only 'Isolated'"));
  EXPECT_THAT(error_with(parts + "/0/pattern", {{"String", " "}}),
              HasSubstr("/pattern/Regex must be a string"));
  EXPECT_THAT(error_with(parts + "/0/pattern/Regex", "\\w"),
              HasSubstr("the split expression is not supported at '\\w'"));
  EXPECT_THAT(error_with(parts + "/1/type", "Digits"),
              HasSubstr("'Digits'; nibble supports only 'ByteLevel'"));
  EXPECT_THAT(error_with(parts + "/1/add_prefix_space", true), HasSubstr("add_prefix_space is true"));
  EXPECT_THAT(error_with(parts + "/1/use_regex", true), HasSubstr("use_regex is true"));
  // add_prefix_space is true if it is absent.
  EXPECT_THAT(error_with(parts + "/1", {{"type", "ByteLevel"}}), HasSubstr("add_prefix_space is true"));
  EXPECT_THAT(error_with("/post_processor/type", "TemplateProcessing"), HasSubstr("/post_processor/type"));
  EXPECT_THAT(error_with("/decoder", nullptr), HasSubstr("/decoder/type must be a string"));
  EXPECT_THAT(error_with("/decoder/type", "Metaspace"),
              HasSubstr("'Metaspace'; nibble supports only 'ByteLevel'"));
  EXPECT_THAT(error_with("/model/type", "Unigram"), HasSubstr("'Unigram'; nibble supports only 'BPE'"));
  EXPECT_THAT(error_with("/model/dropout", 0.1), HasSubstr("/model/dropout is set"));
  EXPECT_THAT(error_with("/model/continuing_subword_prefix", "##"),
              HasSubstr("continuing_subword_prefix is set"));
  EXPECT_THAT(error_with("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix is set"));
  EXPECT_THAT(error_with("/model/ignore_merges", 1), HasSubstr("/model/ignore_merges must be true or false"));
}

TEST(TokenizerJson, ABadVocabularyIsRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(error_with("/model/vocab", json::array()), HasSubstr("/model/vocab must be an object"));
  EXPECT_THAT(error_with("/model/vocab", json::object()), HasSubstr("byte 0x00 has no token"));
  EXPECT_THAT(error_with("/model/vocab/ab", "x"),
              HasSubstr("the id of token 'ab' must be an integer from 0 to 1048575"));
  EXPECT_THAT(error_with("/model/vocab/ab", -1), HasSubstr("the id of token 'ab' must be an integer"));
  EXPECT_THAT(error_with("/model/vocab/ab", 1 << 20), HasSubstr("the id of token 'ab' must be an integer"));
  EXPECT_THAT(error_with("/model/vocab/ab", 7.5), HasSubstr("the id of token 'ab' must be an integer"));
  EXPECT_THAT(error_with("/model/vocab/new", 97), HasSubstr("the token or the id is already in use"));
  EXPECT_THAT(error_with("/model/vocab/\u4E16", 400), HasSubstr("is not written in the byte-level alphabet"));
  EXPECT_THAT(error_with("/model/vocab/a b", 400), HasSubstr("is not written in the byte-level alphabet"));
  EXPECT_THAT(error_with("/model/vocab/", 400), HasSubstr("token '' is not written"));
  // The message must stay one line.
  EXPECT_THAT(error_with("/model/vocab/a\nb", 400), HasSubstr("token 'a\\x0ab' is not written"));
  json file = small_file();
  file["model"]["vocab"].erase("\u0100");
  EXPECT_THAT(error(file), HasSubstr("byte 0x00 has no token"));
}

TEST(TokenizerJson, TheSameTokenTwiceIsRefused) {
  std::string text = small_file().dump();
  text.replace(text.find("\"ab\":257"), 8, "\"ab\":257,\"ab\":400");
  EXPECT_THROW(Tokenizer::from_json(text, "test.json"), InputError);
}

TEST(TokenizerJson, BadMergesAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(error_with("/model/merges", nullptr), HasSubstr("/model/merges must be a list"));
  EXPECT_THAT(error_with("/model/merges/1", json::array({"a", "b", "c"})),
              HasSubstr("/merges/1 is not a pair"));
  EXPECT_THAT(error_with("/model/merges/1", json::array({"a", 1})), HasSubstr("/merges/1 is not a pair"));
  EXPECT_THAT(error_with("/model/merges/1", "ab"), HasSubstr("/merges/1 is not a pair"));
  EXPECT_THAT(error_with("/model/merges/1", 5), HasSubstr("/merges/1 is not a pair"));
  EXPECT_THAT(error_with("/model/merges/1", "a b c"),
              HasSubstr("/merges/1 is not written in the byte-level"));
  EXPECT_THAT(error_with("/model/merges/1", "\u4E16 b"),
              HasSubstr("/merges/1 is not written in the byte-level"));
  EXPECT_THAT(error_with("/model/merges/1", "b a"),
              HasSubstr("/merges/1 uses or produces a token that is not in"));
  EXPECT_THAT(error_with("/model/merges/1", "xy z"),
              HasSubstr("/merges/1 uses or produces a token that is not in"));
  EXPECT_THAT(error_with("/model/merges/1", " ab"),
              HasSubstr("/merges/1 uses or produces a token that is not in"));
  EXPECT_THAT(error_with("/model/merges/1", "\u0120 a"), HasSubstr("/merges/1 is listed twice"));
}

TEST(TokenizerJson, BadSpecialTokensAreRefused) {
  using testing::HasSubstr;
  const std::string token = "/added_tokens/0";
  EXPECT_THAT(error_with("/added_tokens", 1), HasSubstr("/added_tokens must be a list"));
  EXPECT_THAT(error_with("/added_tokens/0", 1), HasSubstr("/added_tokens/0/content must be a string"));
  EXPECT_THAT(error_with(token + "/special", 1), HasSubstr("/special must be true or false"));
  EXPECT_THAT(error_with(token + "/lstrip", true), HasSubstr("/lstrip is true"));
  EXPECT_THAT(error_with(token + "/rstrip", true), HasSubstr("/rstrip is true"));
  EXPECT_THAT(error_with(token + "/single_word", true), HasSubstr("/single_word is true"));
  EXPECT_THAT(error_with(token + "/content", ""), HasSubstr("/content is empty"));
  EXPECT_THAT(error_with(token + "/id", nullptr), HasSubstr("the id of token '<|end|>' must be an integer"));
  EXPECT_THAT(error_with(token + "/id", 97), HasSubstr("has id 97, which another token already has"));
  json file = small_file();
  file["added_tokens"][1] = file["added_tokens"][0];
  EXPECT_THAT(error(file), HasSubstr("added token '<|end|>' is listed twice"));
}

TEST(TokenizerJson, WhatIsNotJsonIsRefused) {
  for (const std::string text : {"", "{", "[]", "{}", "null", "{\"model\":", "{} {}", "\xFF"})
    EXPECT_THROW(Tokenizer::from_json(text, "test.json"), InputError) << text;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THROW(Tokenizer::from_json(deep, "test.json"), InputError);
  const std::string whole = small_file().dump();
  for (size_t size = 0; size < whole.size(); size += 97)
    EXPECT_THROW(Tokenizer::from_json(whole.substr(0, size), "test.json"), InputError) << size;
}

}  // namespace
}  // namespace nibble
