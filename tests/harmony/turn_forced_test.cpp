// Tests the forced tokens of a turn: tokens that have no alternative.
#include <gtest/gtest.h>

#include "grammar/languages/regex.h"
#include "tests/harmony/turns.h"

namespace nibble::harmony {
namespace {

// Returns the forced tokens as text. They must be the encoding of this text, and each must be legal after the
// previous one.
std::string forced_text(TurnConstraint& constraint, const Tokenizer& tokenizer) {
  const std::vector<TokenId> forced = constraint.forced_tokens();
  const std::string text = tokenizer.decode(forced);
  EXPECT_EQ(forced, ids_of(text, tokenizer)) << "not as it is encoded: " << text;
  const std::unique_ptr<grammar::Constraint> fork = constraint.fork();
  for (const TokenId token : forced) EXPECT_TRUE(fork->accept(token)) << text;
  return text;
}

TEST(ForcedTurn, GoesOnOverControlTokensUpToAChoice) {
  struct Case {
    std::string behind, forced;
  };
  const auto check = [](const TurnRules& rules, const std::vector<Case>& cases) {
    for (const auto* trie : {&tiny_trie(), &o200k_trie()})
      for (const auto& [behind, forced] : cases) {
        TurnConstraint constraint = constraint_of(rules, *trie);
        ASSERT_TRUE(accepts(constraint, behind, trie->tokenizer())) << behind;
        EXPECT_EQ(forced_text(constraint, trie->tokenizer()), forced) << "behind " << behind;
      }
  };
  const std::string thinks = "<|channel|>analysis<|message|>";
  // A turn without tools.
  check({.body = grammar::compile_choice({"{\"name\":1}"}).grammar},
        {{"", "<|channel|>"},
         {"<|channel|>", ""},
         {"<|channel|>analysis", "<|message|>"},
         {thinks, ""},
         {thinks + "Well, 1.", ""},
         {thinks + "<|end|>", "<|start|>assistant<|channel|>"},
         {thinks + "<|end|><|start|>", "assistant<|channel|>"},
         {"<|channel|>final", ""},
         {"<|channel|>final<|constrain|>", "json<|message|>{\"name\":1}<|return|>"},
         {"<|channel|>final<|message|>", "{\"name\":1}<|return|>"},
         {"<|channel|>final<|message|>{\"name\":1}", "<|return|>"}});
  // The recipient may come before the channel or after it.
  check({.tools = {{"functions.get_weather", grammar::compile_choice({"{}"}).grammar}}, .must_call = true},
        {{"", ""},
         {thinks + "<|end|>", "<|start|>assistant"},
         {" to", "=functions.get_weather<|channel|>"},
         {" to=functions.get_weather<|channel|>", ""},
         {"<|channel|>commentary", ""},
         {"<|channel|>commentary to", "=functions.get_weather"},
         {"<|channel|>commentary to=functions.get_weather json", "<|message|>{}<|call|>"},
         {"<|channel|>commentary to=functions.get_weather<|constrain|>", ""},
         {"<|channel|>commentary to=functions.get_weather<|constrain|>json", "<|message|>{}<|call|>"}});
}

// If the model has split a text differently from its encoding, nothing is forced until this split ends.
TEST(ForcedTurn, DoesNotGoOnInASplitThatNoEncodingHas) {
  TurnConstraint constraint = constraint_of({.tools = {{"python"}}});
  ASSERT_TRUE(accepts(constraint, " t"));
  EXPECT_EQ(constraint.forced_tokens(), std::vector<TokenId>());
  ASSERT_TRUE(accepts(constraint, "o"));
  EXPECT_EQ(constraint.forced_tokens(), std::vector<TokenId>());
  ASSERT_TRUE(accepts(constraint, "=python"));
  EXPECT_EQ(forced_text(constraint, tiny()), "<|channel|>");
}

}  // namespace
}  // namespace nibble::harmony
