// Tests properties that the parser must have for every stream, on random streams of header parts and texts in
// any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/numbers/random.h"
#include "harmony/control_tokens.h"
#include "harmony/json.h"
#include "tests/harmony/parsed.h"

namespace nibble::harmony {
namespace {

constexpr int kNumStreams{20'000};

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  size_t below(size_t n) { return random_bits(seed_, counter_++) % n; }

 private:
  uint64_t seed_;
  uint64_t counter_{0};
};

const std::vector<std::string> kControls{"<|start|>",     "<|message|>",  "<|message|>", "<|end|>",
                                         "<|call|>",      "<|return|>",   "<|channel|>", "<|channel|>",
                                         "<|constrain|>", "<|endoftext|>"};
const std::vector<std::string> kParts{
    "assistant", "user:", "tool", "analysis", "final", " to=", " json", "code{", " ", "\n", "."};

// Returns a stream of 0 to 30 pieces. Some are words that occur once: w0, w1, ... `num_words` counts them.
std::vector<TokenId> random_stream(Random& random, int& num_words) {
  std::vector<TokenId> tokens;
  const auto add = [&](const std::vector<TokenId>& ids) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  };
  num_words = 0;
  for (size_t left = random.below(31); left > 0; --left) {
    const size_t kind = random.below(10);
    if (kind < 4)
      add(ids_of(kControls[random.below(kControls.size())], tiny()));
    else if (kind < 7)
      add(ids_of(kParts[random.below(kParts.size())], tiny()));
    else
      add(ids_of((kind == 7 ? " to=w" : " w") + std::to_string(num_words++) + " ", tiny()));
  }
  return tokens;
}

std::optional<Role> random_role(Random& random) {
  return random.below(2) ? std::optional(Role::kAssistant) : std::nullopt;
}

// Throws if a message has invalid UTF-8, as to_json(...).dump() does.
std::string as_json(const std::vector<ParsedMessage>& messages) {
  std::string out;
  for (const ParsedMessage& message : messages) out += to_json(message).dump() + '\n';
  return out;
}

TEST(ParseProperty, DeltasAddUpToTheMessages) {
  for (uint64_t seed = 0; seed < kNumStreams; ++seed) {
    Random random(seed);
    int num_words;
    const std::vector<TokenId> tokens = random_stream(random, num_words);
    Parser parser(tiny(), random_role(random));
    std::vector<std::string> texts;
    size_t num_ended = 0;
    const auto hear = [&](const Delta& delta) {
      if (delta.header_ended) texts.emplace_back();
      if (!delta.text.empty()) texts.at(texts.size() - 1) += delta.text;
      num_ended += delta.message_ended;
      ASSERT_EQ(parser.messages().size(), texts.size());
      if (texts.empty()) return;
      ASSERT_EQ(parser.messages().back().message.text, texts.back());
    };
    for (const TokenId token : tokens) hear(parser.push(token));
    hear(parser.finish());
    ASSERT_EQ(num_ended, texts.size()) << "seed " << seed;
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(parser.messages()[i].message.text, texts[i]) << "seed " << seed;
      ASSERT_TRUE(parser.messages()[i].is_complete);
    }
  }
}

// The first 256 tokens of the tiny vocabulary are the bytes.
TEST(ParseProperty, HowTheTextIsCutIntoTokensDoesNotMatter) {
  for (uint64_t seed = 0; seed < kNumStreams; ++seed) {
    Random random(seed);
    int num_words;
    const std::vector<TokenId> tokens = random_stream(random, num_words);
    const std::optional<Role> role = random_role(random);
    std::vector<TokenId> byte_tokens;
    for (const TokenId token : tokens) {
      if (tiny().is_special(token))
        byte_tokens.push_back(token);
      else
        for (const char byte : tiny().bytes(token))
          byte_tokens.push_back(ids_of(std::string(1, byte), tiny()).at(0));
    }
    ASSERT_EQ(as_json(parse(byte_tokens, role, tiny())), as_json(parse(tokens, role, tiny())))
        << "seed " << seed;
  }
}

TEST(ParseProperty, TheParserMayMoveInMidStream) {
  Random random(1);
  int num_words;
  const std::vector<TokenId> tokens = random_stream(random, num_words);
  ASSERT_GT(tokens.size(), 10u);
  Parser first(tiny(), Role::kAssistant);
  Parser second(tiny(), std::nullopt);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == tokens.size() / 2) second = std::move(first);
    (i < tokens.size() / 2 ? first : second).push(tokens[i]);
  }
  second.finish();
  EXPECT_EQ(as_json(second.messages()), as_json(parse(tokens, Role::kAssistant, tiny())));
}

// Returns the numbers of the test's words in a text, in their order: 7 for "to=w7.".
std::vector<int> words_in(const std::string& text) {
  std::vector<int> words;
  for (size_t at = 0; (at = text.find('w', at)) != std::string::npos;) {
    int word = 0;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      word = word * 10 + (text[at] - '0');
    words.push_back(word);
  }
  return words;
}

std::string repairs_of(const ParsedMessage& parsed) {
  std::string out;
  for (const std::string& repair : parsed.repairs)
    if (const size_t quote = repair.find('\''); quote != std::string::npos)
      out += repair.substr(quote) + '\n';
  return out;
}

TEST(ParseProperty, EveryWordIsInAFieldATextARepairOrTheUnfinishedHeader) {
  int num_checked = 0, num_unfinished = 0;
  for (uint64_t seed = 0; seed < kNumStreams; ++seed) {
    Random random(seed);
    int num_words;
    const std::vector<TokenId> tokens = random_stream(random, num_words);
    Parser parser(tiny(), random_role(random));
    for (const TokenId token : tokens) parser.push(token);
    parser.finish();
    const std::vector<ParsedMessage>& messages = parser.messages();

    std::vector<int> said, found;
    for (const ParsedMessage& parsed : messages) {
      const Message& message = parsed.message;
      for (const int word : words_in(message.text)) said.push_back(word);
      for (const auto& field :
           {message.author_name, message.recipient, message.channel, message.content_type})
        for (const int word : words_in(field.value_or(""))) found.push_back(word);
      for (const int word : words_in(repairs_of(parsed))) found.push_back(word);
    }
    ASSERT_TRUE(std::is_sorted(said.begin(), said.end())) << "texts keep their order, seed " << seed;
    found.insert(found.end(), said.begin(), said.end());
    for (const int word : words_in(parser.unfinished_header())) found.push_back(word);
    num_unfinished += !parser.unfinished_header().empty();
    for (int word = 0; word < num_words; ++word)
      ASSERT_NE(std::find(found.begin(), found.end(), word), found.end())
          << "w" << word << " of " << tiny().decode(tokens) << "\nseed " << seed << "\n"
          << as_json(messages);
    num_checked += num_words;
  }
  EXPECT_GT(num_checked, 2 * kNumStreams);
  EXPECT_GT(num_unfinished, kNumStreams / 20);
}

TEST(ParseProperty, NoControlTokenIsInAnyFieldOrText) {
  for (uint64_t seed = 0; seed < kNumStreams; ++seed) {
    Random random(seed);
    int num_words;
    const std::vector<TokenId> tokens = random_stream(random, num_words);
    for (const ParsedMessage& parsed : parse(tokens, random_role(random), tiny())) {
      const Message& message = parsed.message;
      std::string type = message.content_type.value_or("");
      if (type.starts_with(kConstrain)) type = type.substr(kConstrain.size());
      for (const std::string& said : {message.text, message.author_name.value_or(""),
                                      message.recipient.value_or(""), message.channel.value_or(""), type})
        ASSERT_EQ(said.find("<|"), std::string::npos) << tiny().decode(tokens);
    }
  }
}

// Random ids include halves of characters and ids without a token.
TEST(ParseProperty, WhatIsSaidIsValidUtf8) {
  for (uint64_t seed = 0; seed < kNumStreams; ++seed) {
    Random random(seed);
    std::vector<TokenId> tokens;
    for (size_t left = random.below(40); left > 0; --left) {
      const bool is_control = random.below(4) == 0;
      tokens.push_back(is_control ? ids_of(kControls[random.below(kControls.size())], tiny()).at(0)
                                  : static_cast<TokenId>(random.below(random.below(2) ? 256 : 5000)) - 1);
    }
    EXPECT_NO_THROW(as_json(parse(tokens, random_role(random), tiny()))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nibble::harmony
