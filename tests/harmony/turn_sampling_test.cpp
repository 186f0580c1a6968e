// Draws turns from the masks of a constraint, and checks properties that hold at every position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/numbers/random.h"
#include "grammar/languages/schema/json_schema.h"
#include "harmony/parse.h"
#include "tests/harmony/parsed.h"
#include "tests/harmony/turns.h"

namespace nibble::harmony {
namespace {

class TurnSampler {
 public:
  explicit TurnSampler(uint64_t seed) : seed_(seed) {}

  size_t below(size_t n) { return random_bits(seed_, num_drawn_++) % n; }

  // Draws any legal token. After a few tokens of text, prefers tokens that end the text or lead to its end.
  TokenId draw(TurnConstraint& constraint, std::vector<uint32_t>& mask) {
    constraint.fill_mask(mask);
    const std::vector<TokenId> legal = legal_tokens(mask);
    NIBBLE_CHECK(!legal.empty());
    TokenId token = legal[below(legal.size())];
    num_in_text_ = tiny().is_special(token) ? 0 : num_in_text_ + 1;
    if (num_in_text_ < 6) return token;
    // The quote comes first: inside an open string, brackets are plain text and end nothing.
    for (const char* name : {"<|end|>", "<|call|>", "<|return|>", "\"", "]", "}"})
      if (const TokenId end = ids_of(name, tiny())[0]; has_token(mask, end)) return end;
    return token;
  }

 private:
  uint64_t seed_;
  uint64_t num_drawn_{0};
  int num_in_text_{0};
};

const std::vector<std::string> kRecipients{"functions.get", "functions.get_time", "python", "browser.search"};

// One turn in four has no tool and one in four demands a call, so final messages are as frequent as calls.
// Each set of rules is compiled once.
std::shared_ptr<const TurnGrammar> random_grammar(TurnSampler& sampler) {
  static const auto any_object = grammar::compile_json_object().grammar;
  static std::map<std::string, std::shared_ptr<const TurnGrammar>> grammars;
  TurnRules rules;
  std::string key;
  for (const std::string& recipient : kRecipients)
    if (sampler.below(4) == 0) {
      rules.tools.push_back({recipient, recipient == "python" ? nullptr : any_object});
      key += recipient + ' ';
    }
  rules.must_call = !rules.tools.empty() && sampler.below(4) == 0;
  if (sampler.below(2)) rules.body = any_object;
  key += rules.must_call ? "must" : "may";
  key += rules.body ? " object" : " text";
  auto& known = grammars[key];
  if (!known) known = std::make_shared<const TurnGrammar>(std::move(rules), tiny_trie());
  return known;
}

const TurnTool* find(const TurnRules& rules, const std::string& recipient) {
  for (const TurnTool& tool : rules.tools)
    if (tool.recipient == recipient) return &tool;
  return nullptr;
}

// Parses a turn with the parser's repairs, and checks the result.
void expect_parses(const std::vector<TokenId>& tokens, const TurnRules& rules) {
  const std::vector<ParsedMessage> messages = parse(tokens, Role::kAssistant, tiny());
  const std::string text = tiny().decode(tokens);
  ASSERT_FALSE(messages.empty()) << text;
  for (const ParsedMessage& parsed : messages) {
    const Message& message = parsed.message;
    const bool is_last = &parsed == &messages.back();
    EXPECT_THAT(parsed.repairs, testing::IsEmpty()) << text;
    EXPECT_TRUE(parsed.is_complete) << text;
    EXPECT_EQ(message.role, Role::kAssistant) << text;
    EXPECT_EQ(is_last, message.recipient || message.channel == "final") << text;
    std::shared_ptr<grammar::Grammar> grammar;
    if (message.recipient) {
      const TurnTool* tool = find(rules, *message.recipient);
      ASSERT_TRUE(tool) << text;
      grammar = tool->arguments;
    } else if (message.channel == "final") {
      EXPECT_FALSE(rules.must_call) << text;
      grammar = rules.body;
    }
    EXPECT_TRUE(!grammar || Json::accept(message.text)) << text;
  }
}

TEST(TurnSampling, DrawnTurnsParseWithoutRepairs) {
  TurnSampler sampler(1);
  std::vector<uint32_t> mask(tiny_trie().num_mask_words());
  int num_calls = 0, num_finals = 0, num_json = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::shared_ptr<const TurnGrammar> turn = random_grammar(sampler);
    const TurnRules& rules = turn->rules;
    TurnConstraint constraint(turn);
    std::vector<TokenId> tokens;
    while (!constraint.has_ended()) {
      ASSERT_LT(tokens.size(), 500u) << tiny().decode(tokens);
      tokens.push_back(sampler.draw(constraint, mask));
      ASSERT_TRUE(constraint.accept(tokens.back())) << tiny().decode(tokens);
    }
    expect_parses(tokens, rules);
    const bool is_call = tokens.back() == control(tiny(), "<|call|>");
    ++(is_call ? num_calls : num_finals);
    num_json += !is_call && rules.body;
  }
  EXPECT_GT(num_calls, 500);
  EXPECT_GT(num_finals, 500);
  EXPECT_GT(num_json, 200);
}

TEST(TurnSampling, ABitIsSetWhereTheTokenIsAcceptedAndForcedTokensAreAccepted) {
  TurnSampler sampler(2);
  std::vector<uint32_t> mask(tiny_trie().num_mask_words());
  int num_places = 0, num_forced = 0;
  for (int i = 0; i < 40; ++i) {
    TurnConstraint constraint(random_grammar(sampler));
    std::string text;
    for (int i_token = 0; i_token < 60 && !constraint.has_ended(); ++i_token) {
      const TokenId next = sampler.draw(constraint, mask);
      TurnConstraint other = constraint;
      for (TokenId token = 0; token < tiny().num_tokens(); ++token) {
        const bool is_accepted = other.accept(token);
        ASSERT_EQ(is_accepted, has_token(mask, token)) << "'" << tiny().bytes(token) << "' behind " << text;
        if (is_accepted) other = constraint;
      }
      const std::vector<TokenId> forced = constraint.forced_tokens();
      for (const TokenId token : forced) {
        std::vector<uint32_t> of_other(mask.size());
        other.fill_mask(of_other);
        ASSERT_TRUE(has_token(of_other, token)) << "'" << tiny().bytes(token) << "' behind " << text;
        ASSERT_TRUE(other.accept(token));
      }
      num_forced += static_cast<int>(forced.size());
      EXPECT_EQ(mask_of(constraint), mask) << "moved behind " << text;
      ASSERT_TRUE(constraint.accept(next));
      text += tiny().bytes(next);
      ++num_places;
    }
  }
  EXPECT_GT(num_places, 500);
  EXPECT_GT(num_forced, 50);
}

}  // namespace
}  // namespace nibble::harmony
