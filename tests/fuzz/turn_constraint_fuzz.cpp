// Makes the rules of a turn from the first byte, and chooses tokens by the other bytes. A mask bit is set if
// and only if its token is accepted, and forced tokens are accepted. Some token is legal up to the end of the
// turn, and none after it. The parser reads a whole turn without repairs, and reasoning stays within its
// budget.
#include <array>

#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "harmony/chat.h"
#include "harmony/parse.h"
#include "harmony/turn_constraint.h"
#include "tests/fuzz/grammar_masks.h"

namespace nibble::harmony {
namespace {

// Bits: three tools, whether a call is required, the format of the final message, the reasoning budget.
TurnRules rules_of(uint8_t bits) {
  static const auto object = grammar::compile_json_object().grammar;
  static const auto number = grammar::compile_regex("[0-9]{1,3}").grammar;
  TurnRules rules;
  if (bits & 1) rules.tools.push_back({"functions.a", object});
  if (bits & 2) rules.tools.push_back({"functions.ab", number});
  if (bits & 4) rules.tools.push_back({"b"});
  rules.must_call = (bits & 8) && !rules.tools.empty();
  rules.body = bits & 16 ? object : bits & 32 ? number : nullptr;
  constexpr std::optional<int> kBudgets[]{std::nullopt, 0, 3, 20};
  rules.max_reasoning_tokens = kBudgets[bits / 64];
  return rules;
}

// Rules are compiled once, because inputs mostly vary the tokens.
std::shared_ptr<const TurnGrammar> grammar_of(uint8_t bits) {
  static std::array<std::shared_ptr<const TurnGrammar>, 256> grammars;
  auto& known = grammars[bits];
  if (!known) known = std::make_shared<const TurnGrammar>(rules_of(bits), grammar::fuzz_vocabulary());
  return known;
}

// Compares the mask with what accept() says about one token in 16 and about all control tokens.
void check_place(TurnConstraint& constraint, const std::vector<uint32_t>& mask, TokenId first) {
  const Tokenizer& tokenizer = grammar::fuzz_vocabulary().tokenizer();
  TurnConstraint other = constraint;
  for (TokenId token = 0; token < tokenizer.num_tokens(); ++token) {
    if (token % 16 != first % 16 && !tokenizer.is_special(token)) continue;
    const bool is_accepted = other.accept(token);
    NIBBLE_CHECK(is_accepted == has_token(mask, token), "token {}", token);
    if (is_accepted) other = constraint;
  }
  std::vector<uint32_t> behind(mask.size());
  for (const TokenId token : constraint.forced_tokens()) {
    other.fill_mask(behind);
    NIBBLE_CHECK(has_token(behind, token) && other.accept(token), "forced token {}", token);
  }
  constraint.fill_mask(behind);
  NIBBLE_CHECK(behind == mask);
}

void check_turn(const uint8_t* data, size_t size) {
  const grammar::VocabularyTrie& vocabulary = grammar::fuzz_vocabulary();
  const Tokenizer& tokenizer = vocabulary.tokenizer();
  TurnConstraint constraint(grammar_of(data[0]));
  std::vector<uint32_t> mask(vocabulary.num_mask_words() + data[0] / 64);
  Parser parser(tokenizer, Role::kAssistant);
  int num_reasoning = 0;
  for (size_t i = 1; i < size && !constraint.has_ended(); ++i) {
    constraint.fill_mask(mask);
    std::vector<TokenId> legal;
    for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 32); ++token)
      if (has_token(mask, token)) legal.push_back(token);
    NIBBLE_CHECK(!legal.empty());
    if (i % 4 == data[0] % 4) check_place(constraint, mask, data[i]);
    // Control tokens have the highest ids, so bytes from 128 on choose from the end of `legal`.
    const size_t choice =
        data[i] < 128 ? data[i] % legal.size() : legal.size() - 1 - (255u - data[i]) % legal.size();
    NIBBLE_CHECK(constraint.accept(legal[choice]));
    parser.push(legal[choice]);
    if (const auto& messages = parser.messages(); !messages.empty())
      num_reasoning += !tokenizer.is_special(legal[choice]) && !messages.back().is_complete &&
                       part_of(messages.back().message) == AnswerPart::kReasoning;
  }
  NIBBLE_CHECK(num_reasoning <= grammar_of(data[0])->rules.max_reasoning_tokens.value_or(num_reasoning));
  if (!constraint.has_ended()) return;
  for (TokenId token = 0; token < tokenizer.num_tokens(); ++token) NIBBLE_CHECK(!constraint.accept(token));
  parser.finish();
  for (const ParsedMessage& parsed : parser.messages())
    NIBBLE_CHECK(parsed.repairs.empty() && parsed.is_complete, "{}", parsed.message.text);
}

}  // namespace
}  // namespace nibble::harmony

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) nibble::harmony::check_turn(data, size);
  return 0;
}
