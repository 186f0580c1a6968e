// Tests encoding and decoding with two real vocabularies: o200k's and the bundled model's.
#include "text/tokenizer.h"
#include "core/text/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/errors/error.h"
#include "core/numbers/random.h"
#include "tests/folders.h"
#include "tests/text/o200k.h"

namespace nibble {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Ids = std::vector<TokenId>;

const Tokenizer& o200k() {
  static const Tokenizer tokenizer = Tokenizer::open(test::o200k_path());
  return tokenizer;
}

const Tokenizer& o200k_from_json() {
  static const Tokenizer tokenizer = Tokenizer::from_json(
      test::tokenizer_json(test::tokens_of(test::file_bytes(test::o200k_path()))).dump(), "o200k.json");
  return tokenizer;
}

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  return tokenizer;
}

Ids ordinary(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, SpecialTokens::kOrdinary);
}

std::vector<json> o200k_vectors() {
  std::vector<json> vectors;
  std::ifstream lines(test::source_path("tests/data/o200k_vectors.jsonl"));
  for (std::string line; std::getline(lines, line);) vectors.push_back(json::parse(line));
  EXPECT_EQ(vectors.size(), 100u);
  return vectors;
}

TEST(Tokenizer, O200kGivesTheIdsOfTheVectors) {
  for (const json& vector : o200k_vectors()) {
    const auto text = vector["text"].get<std::string>();
    EXPECT_EQ(ordinary(o200k(), text), vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(ordinary(o200k_from_json(), text), vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(o200k().decode(vector["ids"].get<Ids>()), text);
  }
}

TEST(Tokenizer, TheBundledVocabularyGivesTheIdsOfTheVectors) {
  const json vectors =
      json::parse(test::file_bytes(test::source_path("tests/golden/tokenizer_vectors.json")));
  ASSERT_EQ(vectors.size(), 26u);
  for (const json& vector : vectors) {
    const auto text = vector["text"].get<std::string>();
    EXPECT_EQ(tiny().encode(text, SpecialTokens::kRecognise), vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(tiny().decode(vector["ids"].get<Ids>()), text);
  }
}

TEST(Tokenizer, ARankFileAndATokenizerJsonGiveTheSameIds) {
  const std::string prose = test::file_bytes(test::source_path("tests/golden/eval/prose.txt"));
  EXPECT_EQ(ordinary(o200k(), prose), ordinary(o200k_from_json(), prose));
  for (TokenId id = 0; id < 199'998; ++id) {
    ASSERT_EQ(o200k().bytes(id), o200k_from_json().bytes(id)) << id;
    const Ids ids = ordinary(o200k(), o200k().bytes(id));
    ASSERT_EQ(ids, ordinary(o200k_from_json(), o200k().bytes(id))) << id;
  }
}

// The split expression cuts 12 tokens that are valid text into several pieces. Every other token that is
// valid text is encoded as itself.
TEST(Tokenizer, NearlyEveryTokenThatIsTextIsOneToken) {
  int num_cut = 0;
  for (TokenId id = 0; id < 199'998; ++id) {
    const std::string_view bytes = o200k().bytes(id);
    if (json_text(json(bytes)).find("\uFFFD") != std::string::npos) continue;
    num_cut += ordinary(o200k(), bytes) != Ids{id};
  }
  EXPECT_EQ(num_cut, 12);
}

// For o200k, looking up a whole piece is only a shortcut: merging would reach every token too.
TEST(Tokenizer, MergingAloneMakesTheSameTokensAsWholePieces) {
  json file = test::tokenizer_json(test::tokens_of(test::file_bytes(test::o200k_path())));
  file["model"]["ignore_merges"] = false;
  const Tokenizer merging = Tokenizer::from_json(file.dump(), "o200k.json");
  const std::string prose = test::file_bytes(test::source_path("tests/golden/eval/prose.txt"));
  EXPECT_EQ(ordinary(merging, prose), ordinary(o200k(), prose));
  for (TokenId id = 0; id < 199'998; ++id)
    ASSERT_EQ(ordinary(merging, o200k().bytes(id)), ordinary(o200k(), o200k().bytes(id))) << id;
}

TEST(Tokenizer, SpecialTokensAreTextByDefault) {
  EXPECT_THAT(ordinary(o200k(), "<|start|>"), ElementsAre(27, 91, 5236, 91, 29));
  EXPECT_THAT(o200k().encode("<|start|>", SpecialTokens::kRecognise), ElementsAre(200006));
  EXPECT_THAT(o200k().encode("<|start|>assistant<|channel|>analysis<|message|>", SpecialTokens::kRecognise),
              ElementsAre(200006, 173781, 200005, 35644, 200008));
  EXPECT_THAT(o200k().encode("hello world", SpecialTokens::kRecognise), ElementsAre(24912, 2375));
}

TEST(Tokenizer, HalfASpecialTokenIsText) {
  for (const std::string text : {"<|start|", "<|", "|>", "<|Start|>", "<| start|>", "<|nothing|>"})
    EXPECT_EQ(o200k().encode(text, SpecialTokens::kRecognise), ordinary(o200k(), text)) << text;
}

TEST(Tokenizer, ASpecialTokenHasItsNameAsBytesAndIsFoundByIt) {
  EXPECT_EQ(o200k().bytes(200006), "<|start|>");
  EXPECT_EQ(o200k().special("<|start|>"), 200006);
  EXPECT_EQ(o200k().special("<|endofprompt|>"), 200018);
  EXPECT_EQ(o200k().special("<|reserved_200013|>"), 200013);
  EXPECT_EQ(o200k().special("hello"), std::nullopt);
  EXPECT_TRUE(o200k().is_special(199998));
  EXPECT_FALSE(o200k().is_special(199997));
  EXPECT_EQ(o200k().num_tokens(), 200019);
  EXPECT_EQ(tiny().num_tokens(), 4085);
  EXPECT_EQ(tiny().special("<|call|>"), 4078);
}

TEST(Tokenizer, AnIdWithoutATokenHasNoBytesAndDecodesToNothing) {
  for (const TokenId id : {-1, 200019, 201087, 1 << 30}) {
    EXPECT_EQ(o200k().bytes(id), "");
    EXPECT_FALSE(o200k().is_special(id));
    EXPECT_EQ(o200k().decode(Ids{24912, id, 2375}), "hello world");
  }
}

TEST(Tokenizer, ATokenMayBeHalfACharacter) { EXPECT_EQ(o200k().bytes(9552), " \xF0\x9F"); }

TEST(Tokenizer, NoTextHasNoTokens) {
  EXPECT_THAT(ordinary(o200k(), ""), ElementsAre());
  EXPECT_EQ(o200k().decode({}), "");
}

TEST(Tokenizer, IllFormedBytesAreATokenEachAndEndTheTextBeforeThem) {
  const TokenId ff = ordinary(o200k(), "\xFF").at(0);
  EXPECT_EQ(o200k().bytes(ff), "\xFF");
  Ids expected = ordinary(o200k(), "hello");
  expected.insert(expected.end(), {ff, ff});
  for (const TokenId id : ordinary(o200k(), " world")) expected.push_back(id);
  EXPECT_EQ(ordinary(o200k(), "hello\xFF\xFF world"), expected);
  EXPECT_EQ(ordinary(o200k(), "\xF0\x9F\x98").size(), 3u);  // although two of the bytes begin a longer token
}

TEST(Tokenizer, AnyBytesComeBack) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string bytes;
    const uint64_t size = random_bits(seed, 0) % 200;
    // None, one third or two thirds of the bytes may be above 127.
    const uint64_t high_bit = random_bits(seed, 1) % 3;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t bits = random_bits(seed, 2 + i);
      bytes += static_cast<char>(bits >> 8 & (bits % 3 < high_bit ? 0xFF : 0x7F));
    }
    for (const Tokenizer* tokenizer : {&o200k(), &tiny()})
      for (const auto special : {SpecialTokens::kOrdinary, SpecialTokens::kRecognise})
        ASSERT_EQ(tokenizer->decode(tokenizer->encode(bytes, special)), bytes) << seed;
  }
}

// Texts that are a single piece, or in which a match begins often and then fails. With quadratic time, any of
// these would take minutes at this length.
TEST(Tokenizer, AMegabyteOfAnythingIsEncoded) {
  constexpr size_t kTextBytes{1'000'000};
  for (const std::string part :
       {"a", "A", " ", "\n", "\r\n ", "-", "0", "\u0301", "\u4E16", "\U0001F600", "\U00031350", "'s",
        " \u2003", "<|", "<|reserved_", "\xFF", "\xF0\x9F", "aA", "\u0301A"}) {
    std::string text;
    while (text.size() < kTextBytes) text += part;
    EXPECT_EQ(o200k().decode(o200k().encode(text, SpecialTokens::kRecognise)), text) << part;
  }
  std::string letters;  // one piece of 2 MB: random letters, no repeated part
  for (uint64_t i = 0; i < 2 * kTextBytes; ++i) letters += static_cast<char>('a' + random_bits(7, i) % 26);
  EXPECT_EQ(o200k().decode(ordinary(o200k(), letters)), letters);
}

// Encodes one piece of 1000 spaces. The expected ids are those of Hugging Face's tokenizers 0.23.3. (The
// longest o200k token has 128 spaces.)
TEST(Tokenizer, ALongRunIsSplitAsByHuggingFace) {
  EXPECT_THAT(ordinary(o200k(), std::string(1000, ' ')),
              ElementsAre(72056, 72056, 72056, 72056, 72056, 72056, 72056, 9344, 27240));
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  const std::string prose =
      test::file_bytes(test::source_path("tests/golden/eval/prose.txt")).substr(0, 20'000);
  const Ids expected = ordinary(o200k(), prose);
  std::vector<Ids> ids(8);
  {
    std::vector<std::jthread> threads;
    for (Ids& own : ids)
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) own = ordinary(o200k(), prose);
      });
  }
  for (const Ids& own : ids) EXPECT_EQ(own, expected);
}

TEST(Tokenizer, WhatIsNoVocabularyIsRefused) {
  EXPECT_THROW(Tokenizer::open("/nowhere/tokenizer.json"), InputError);
  EXPECT_THROW(Tokenizer::open(test::source_path("tests")), InputError);  // the folder has no tokenizer.json
  EXPECT_THROW(Tokenizer::open(test::source_path("models/tiny-gpt-oss/config.json")), InputError);
  EXPECT_THROW(Tokenizer::open(test::source_path("models/tiny-gpt-oss/model-00000-of-00001.safetensors")),
               InputError);
  EXPECT_THROW(Tokenizer::open(test::source_path("tests/golden/eval/prose.txt")), InputError);
}

}  // namespace
}  // namespace nibble
