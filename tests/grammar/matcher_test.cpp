#include "grammar/matching/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "grammar/languages/lark.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "tests/error_of.h"
#include "tests/grammar/random_schema.h"
#include "tests/grammar/vocabularies.h"

namespace nibble::grammar {
namespace {

class Sampler {
 public:
  explicit Sampler(unsigned seed) : random_(seed) {}
  // Draws a token that the mask allows, preferably one that closes a string, list or object, so that texts
  // come to an end. Returns std::nullopt if the mask is empty.
  std::optional<TokenId> draw(const std::vector<uint32_t>& mask) {
    std::vector<TokenId> legal;
    for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token)
      if (has_token(mask, token)) legal.push_back(token);
    if (legal.empty()) return std::nullopt;
    TokenId best = legal[random_() % legal.size()];
    if (random_() % 3 != 0)
      for (int tries = 0; tries < 40; ++tries) {
        const TokenId other = legal[random_() % legal.size()];
        if (tiny_tokenizer().bytes(other).find_first_of("\"}]") != std::string_view::npos) best = other;
      }
    return best;
  }
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

 private:
  std::mt19937 random_;
};

std::string shown(const std::vector<uint32_t>& mask, const std::vector<uint32_t>& expected) {
  std::string text;
  for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token)
    if (has_token(mask, token) != has_token(expected, token))
      text += (has_token(mask, token) ? " wrongly set: '" : " missing: '") +
              std::string(tiny_tokenizer().bytes(token)) + "'";
  return text.substr(0, 400);
}

// Follows a random text. At each position compares the mask with trying every token.
std::string follow_and_compare(const Compiled& compiled, Sampler& sampler, int max_tokens,
                               const std::string& what) {
  Matcher matcher(compiled.grammar, tiny_vocabulary());
  std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
  std::string text;
  for (int i = 0; i < max_tokens; ++i) {
    matcher.fill_mask(mask);
    const std::vector<uint32_t> expected = mask_by_trying(matcher);
    EXPECT_EQ(mask, expected) << what << "\nbehind " << text << shown(mask, expected);
    if (mask != expected) break;
    const std::optional<TokenId> token = sampler.draw(mask);
    EXPECT_EQ(!token, matcher.is_finished()) << what << "\nbehind " << text;
    if (!token || (matcher.is_complete() && sampler.below(3) == 0)) break;
    EXPECT_TRUE(matcher.accept(*token));
    text += tiny_tokenizer().bytes(*token);
  }
  return matcher.is_complete() ? text : "";
}

TEST(Mask, OfSchemasIsWhatTryingEveryTokenFinds) {
  RandomSchemas schemas(7);
  Sampler sampler(8);
  int num_complete = 0;
  for (int i = 0; i < 300; ++i) {
    const Json schema = schemas.make();
    Compiled compiled;
    // Random keywords may contradict each other, which is an error.
    const std::string error =
        error_of([&] { compiled = compile_json_schema(schema, {.is_strict = i % 4 == 0}); });
    if (error != "accepted") {
      EXPECT_THAT(error, testing::HasSubstr("no text satisfies the grammar or schema")) << schema.dump();
      continue;
    }
    const std::string text = follow_and_compare(compiled, sampler, 20, schema.dump());
    if (text.empty()) continue;
    ++num_complete;
    EXPECT_TRUE(Json::accept(text)) << text << "\n" << schema.dump();
  }
  EXPECT_GT(num_complete, 100);
}

TEST(Mask, OfRegularExpressionsIsWhatTryingEveryTokenFinds) {
  Sampler sampler(9);
  for (const char* regex : {"[a-z]+( [a-z]+)*", "\"[^\"]*\"", R"((\d{1,3}\.){3}\d{1,3})", "(a|b)*a(a|b){12}",
                            ".{0,20}", R"(\p{L}+|\s)", "[^a-z]{3,}x?", "[a-z ]{0,9}[0-9]?",
                            "([a-z]{1,12}\\.)*", ".{5}[A-Z]*", "(the|then|there)+", "[\\s\\S]*END"})
    for (int i = 0; i < 5; ++i) follow_and_compare(compile_regex(regex), sampler, 20, regex);
}

// Half of the tokens begin with a blank. The mask for these tokens comes from the state after the blank.
TEST(Mask, WhereABlankMayComeIsWhatTryingEveryTokenFinds) {
  Sampler sampler(12);
  for (const char* regex :
       {" .+", " .{0,9}", " ?[a-z]{0,5}x?", "( \\w+)+", "[A-Z]?( [a-z]+)*\\.", "( \\p{L}+)+", " [^e]*",
        "(a| )+ ?b", "( .{1,6}\n)+", "[a-z]{1,3} ( |[a-z]+)", " (the|of|and)( [a-z]{2,4}){1,3}"})
    for (int i = 0; i < 5; ++i) follow_and_compare(compile_regex(regex), sampler, 12, regex);
  // A pattern and a length limit together determine how long a token may be.
  for (const char* pattern : {"^ .*$", "^[a-z]+( [a-z]+)*$", "^( [a-z]{3})+$", "^a? ?[a-z ]*z$"})
    for (unsigned most = 1; most < 24; most += sampler.below(4) + 1) {
      const Json schema{{"type", "string"}, {"pattern", pattern}, {"minLength", 1}, {"maxLength", most}};
      Compiled compiled;
      if (error_of([&] { compiled = compile_json_schema(schema); }) == "accepted")
        follow_and_compare(compiled, sampler, 12, schema.dump());
    }
}

TEST(Mask, OfAPatchIsWhatTryingEveryTokenFinds) {
  const Compiled patch = compile_lark(
      "start: \"*** Add File:\" / .+/ LF line+ \"***\"\nline: \"+\" /(.*)/ LF\n%import common.LF\n");
  Sampler sampler(13);
  for (int i = 0; i < 8; ++i) follow_and_compare(patch, sampler, 40, "a patch");
}

TEST(Mask, OfAnyJsonObjectIsWhatTryingEveryTokenFinds) {
  Sampler sampler(10);
  for (int i = 0; i < 15; ++i) follow_and_compare(compile_json_object(), sampler, 30, "any object");
}

TEST(Matcher, GoesBackToAnyEarlierPlace) {
  RandomSchemas schemas(11);
  Sampler sampler(12);
  for (int i = 0; i < 100; ++i) {
    const Json schema = schemas.make();
    Compiled compiled;
    if (error_of([&] { compiled = compile_json_schema(schema); }) != "accepted") continue;
    Matcher matcher(compiled.grammar, tiny_vocabulary());
    std::vector<TokenId> tokens;
    std::vector<std::vector<uint32_t>> masks(1, std::vector<uint32_t>(tiny_vocabulary().num_mask_words()));
    matcher.fill_mask(masks[0]);
    while (tokens.size() < 15) {
      const std::optional<TokenId> token = sampler.draw(masks.back());
      if (!token) break;
      ASSERT_TRUE(matcher.accept(*token));
      tokens.push_back(*token);
      masks.push_back(masks.back());
      matcher.fill_mask(masks.back());
    }
    const Matcher end = matcher;
    std::vector<uint32_t> mask = masks[0];
    for (int round = 0; round < 5; ++round) {
      const size_t to = sampler.below(static_cast<unsigned>(tokens.size()) + 1);
      matcher.rollback(std::min(matcher.num_steps(), to));
      while (matcher.num_steps() < to) ASSERT_TRUE(matcher.accept(tokens[matcher.num_steps()]));
      matcher.fill_mask(mask);
      EXPECT_EQ(mask, masks[to]) << schema.dump();
    }
    Matcher fork = end;  // a copy has its own state
    fork.fill_mask(mask);
    EXPECT_EQ(mask, masks.back()) << schema.dump();
  }
}

TEST(Matcher, ATokenThatMayNotFollowChangesNothing) {
  Matcher matcher(compile_regex("abc[0-9]+").grammar, tiny_vocabulary());
  EXPECT_TRUE(matcher.accept("ab"));
  EXPECT_FALSE(matcher.accept("cx"));
  EXPECT_EQ(matcher.num_steps(), 1u);
  EXPECT_TRUE(matcher.accept("c4"));
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_FALSE(matcher.accept(*tiny_tokenizer().special("<|end|>"))) << "control tokens are no text";
}

TEST(Forced, BytesEndWhereThereIsAChoiceOrTheTextMayEnd) {
  Matcher matcher(
      compile_json_schema({{"type", "object"},
                           {"properties", {{"orderId", {{"const", 1}}}, {"orderName", {{"const", 2}}}}},
                           {"required", {"orderId", "orderName"}},
                           {"additionalProperties", false}})
          .grammar,
      tiny_vocabulary());
  EXPECT_EQ(matcher.forced_bytes(), "{") << "a line may end here";
  EXPECT_TRUE(matcher.accept("{\""));
  EXPECT_EQ(matcher.forced_bytes(), "orderId\":");
  EXPECT_TRUE(matcher.accept("orderId\":1,\"orderName\":2"));
  EXPECT_TRUE(matcher.accept("}"));
  EXPECT_EQ(matcher.forced_bytes(), "");
}

TEST(Forced, TokensAreThoseOfTheEncodingOfAllText) {
  int num_forced = 0;
  for (const char* text : {"the only possible answer is this one.", "{\"name\":\"a name\",\"list\":[1,2,3]}",
                           "  x = y + 100;\n\n  return"}) {
    const std::vector<TokenId> whole = tiny_tokenizer().encode(text, SpecialTokens::kOrdinary);
    for (size_t num_given = 0; num_given <= whole.size(); ++num_given) {
      Matcher matcher(compile_choice({text}).grammar, tiny_vocabulary());
      for (size_t i = 0; i < num_given; ++i) ASSERT_TRUE(matcher.accept(whole[i]));
      const std::vector<TokenId> forced = matcher.forced_tokens();
      EXPECT_EQ(forced, std::vector<TokenId>(whole.begin() + static_cast<ptrdiff_t>(num_given), whole.end()))
          << text;
      num_forced += static_cast<int>(forced.size());
    }
  }
  EXPECT_GT(num_forced, 50);
}

// The properties "orderId" and "orderName" force the bytes "order", but a model writes the token "orderId" if
// the vocabulary has it. So bytes at which a longer token may begin are not forced as tokens.
TEST(Forced, TokensLeaveOutWhatALongerTokenMayReplace) {
  const std::vector<std::string> texts{"something else and theory", "something else and themes"};
  Matcher matcher(compile_choice(texts).grammar, tiny_vocabulary());
  EXPECT_EQ(matcher.forced_bytes(), "something else and the");
  const std::vector<TokenId> forced = matcher.forced_tokens();
  for (const std::string& text : texts) {
    const std::vector<TokenId> whole = tiny_tokenizer().encode(text, SpecialTokens::kOrdinary);
    ASSERT_LE(forced.size(), whole.size());
    EXPECT_TRUE(std::equal(forced.begin(), forced.end(), whole.begin())) << text;
  }
  EXPECT_FALSE(forced.empty());
}

}  // namespace
}  // namespace nibble::grammar
