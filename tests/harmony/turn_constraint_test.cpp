#include "harmony/turn_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/numbers/random.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "tests/error_of.h"
#include "tests/harmony/turns.h"

namespace nibble::harmony {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

const std::string kThought{"<|channel|>analysis<|message|>So I thought.<|end|><|start|>assistant"};

// Returns rules with two functions, the name of one a prefix of the other's, and a tool that takes any text.
TurnRules two_functions_and_python() {
  return {.tools = {{"functions.get", grammar::compile_json_object().grammar},
                    {"functions.get_time", grammar::compile_json_object().grammar},
                    {"python"}}};
}

std::vector<std::string> headers_of_call(const std::string& recipient) {
  const std::string to = " to=" + recipient;
  std::vector<std::string> headers;
  for (const char* channel : {"<|channel|>commentary", "<|channel|>analysis"})
    for (const char* type : {"", " json", " code", " <|constrain|>json", "<|constrain|>json",
                             " <|constrain|>code", "<|constrain|>code"}) {
      headers.push_back(channel + to + type + "<|message|>");
      headers.push_back(to + channel + type + "<|message|>");
    }
  return headers;
}

const std::vector<std::string> kFinalHeaders{"<|channel|>final<|message|>",
                                             "<|channel|>final <|constrain|>json<|message|>",
                                             "<|channel|>final<|constrain|>json<|message|>"};

void expect_turn(const TurnRules& rules, const std::string& turn) {
  for (const auto* trie : {&tiny_trie(), &o200k_trie()}) {
    TurnConstraint constraint = constraint_of(rules, *trie);
    EXPECT_TRUE(accepts(constraint, turn, trie->tokenizer())) << turn;
    EXPECT_TRUE(constraint.has_ended()) << turn;
  }
}

TEST(TurnConstraint, EveryFormOfACallIsLegal) {
  const TurnRules rules = two_functions_and_python();
  for (const TurnTool& tool : rules.tools)
    for (const std::string& header : headers_of_call(tool.recipient)) {
      const std::string arguments = tool.arguments ? R"({"a": [1, null]})" : "1 + 1, {";
      for (const std::string& before :
           {std::string(), kThought,
            kThought + "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"})
        expect_turn(rules, before + header + arguments + "<|call|>");
    }
}

TEST(TurnConstraint, EveryFormOfAFinalMessageIsLegal) {
  for (const TurnRules& rules :
       {TurnRules{}, two_functions_and_python(), TurnRules{.body = grammar::compile_json_object().grammar}})
    for (const std::string& header : kFinalHeaders)
      for (const std::string& before : {std::string(), kThought, kThought + kThought})
        expect_turn(rules, before + header + "{\"a\": 1}<|return|>");
}

TEST(TurnConstraint, NothingElseIsAHeader) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> kIllegalBehind{
      {"",
       {"<|message|>", "Hello", "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|endoftext|>",
        "to=python"}},
      {"<|channel|>", {"thoughts", " final", "<|message|>", "<|channel|>", "<|constrain|>"}},
      {"<|channel|>comment", {"<|message|>", " "}},
      {"<|channel|>analysis", {" json", "<|constrain|>", "<|channel|>", "<|end|>", "<|start|>"}},
      {"<|channel|>commentary ", {"<|message|>", "<|constrain|>", "json"}},
      {"<|channel|>final", {" to", "<|channel|>", "<|return|>"}},
      {"<|channel|>final ", {"json", "<|message|>"}},
      {"<|channel|>final<|constrain|>", {"code", "<|message|>", " json"}},
      {"<|channel|>final<|constrain|>json", {" ", "<|constrain|>", "<|channel|>"}},
      {"<|channel|>commentary to=", {"get", "functions.set", "<|message|>", " python", "assistant"}},
      {"<|channel|>commentary to=functions.ge", {"<|message|>", " "}},
      {"<|channel|>commentary to=functions.get_", {"<|message|>", "<|constrain|>"}},
      {"<|channel|>commentary to=python", {"json", " xml", " to", "<|channel|>", "<|call|>"}},
      {"<|channel|>commentary to=python ", {"<|message|>", "to=python"}},
      {"<|channel|>commentary to=python json", {"<|constrain|>", " "}},
      {"<|channel|>commentary to=python<|constrain|>", {"<|message|>", " json"}},
      {" to=python", {"<|message|>", " ", "<|constrain|>"}},
      {" to=python<|channel|>", {"final", " to"}},
      {" to=python<|channel|>commentary", {" to", "json"}},
      {"<|channel|>analysis<|message|><|end|>", {"<|channel|>", "assistant", "<|end|>"}},
      {"<|channel|>analysis<|message|><|end|><|start|>", {"user", "<|channel|>", "functions.get"}},
      {"<|channel|>analysis<|message|>", {"<|start|>", "<|channel|>", "<|endoftext|>"}}};
  for (const auto& [beginning, illegal] : kIllegalBehind)
    for (const char* text : illegal) {
      TurnConstraint constraint = constraint_of(two_functions_and_python());
      ASSERT_TRUE(accepts(constraint, beginning)) << beginning;
      EXPECT_FALSE(accepts(constraint, text)) << text << " behind " << beginning;
    }
}

TEST(TurnConstraint, WithoutToolsNoMessageHasARecipient) {
  TurnConstraint constraint = constraint_of({});
  EXPECT_THAT(legal_texts(constraint), ElementsAre("<|channel|>"));
  EXPECT_TRUE(accepts(constraint, "<|channel|>commentary"));
  EXPECT_THAT(legal_texts(constraint), ElementsAre("<|message|>"));
}

TEST(TurnConstraint, NoPreambleStandsBeforeAFinalMessageUnderAGrammar) {
  TurnRules rules = two_functions_and_python();
  rules.body = grammar::compile_json_object().grammar;
  TurnConstraint constraint = constraint_of(rules);
  ASSERT_TRUE(accepts(constraint, "<|channel|>commentary"));
  EXPECT_FALSE(accepts(constraint, "<|message|>"));
  EXPECT_TRUE(accepts(constraint, " to=python<|message|>"));
  constraint = constraint_of({.body = rules.body});
  ASSERT_TRUE(accepts(constraint, "<|channel|>"));
  EXPECT_FALSE(accepts(constraint, "commentary"));
}

// Every token that continues a word of a header must be legal, even a token that the model never writes
// there.
TEST(TurnConstraint, AHeaderMayBeSplitIntoAnyTokens) {
  const TurnRules rules = two_functions_and_python();
  uint64_t num_drawn = 0;
  std::vector<std::string> headers = headers_of_call("functions.get_time");
  for (const std::string& header : kFinalHeaders) headers.push_back(kThought + header);
  for (const std::string& header : headers)
    for (const bool is_by_characters : {true, false}) {
      TurnConstraint constraint = constraint_of(rules);
      for (std::string_view rest = header; !rest.empty();) {
        const std::vector<uint32_t> mask = mask_of(constraint);
        std::vector<TokenId> ways;  // tokens that continue the turn
        for (TokenId token = 0; token < tiny().num_tokens(); ++token)
          if (const auto bytes = tiny().bytes(token);
              !bytes.empty() && rest.starts_with(bytes) &&
              (tiny().is_special(token) || rest.find("<|") >= bytes.size())) {
            EXPECT_TRUE(has_token(mask, token)) << "'" << bytes << "' in front of " << rest;
            if (tiny().is_special(token) || !is_by_characters || bytes.size() == 1) ways.push_back(token);
          }
        ASSERT_FALSE(ways.empty()) << rest;
        const TokenId token = ways[random_bits(5, num_drawn++) % ways.size()];
        ASSERT_TRUE(constraint.accept(token)) << rest;
        rest.remove_prefix(tiny().bytes(token).size());
      }
      EXPECT_TRUE(constraint.accept(ids_of("{", tiny())[0])) << header;
    }
}

TEST(TurnConstraint, ACallThatIsDemandedLeavesNoFinalMessage) {
  TurnRules rules = two_functions_and_python();
  rules.must_call = true;
  TurnConstraint constraint = constraint_of(rules);
  ASSERT_TRUE(accepts(constraint, kThought + "<|channel|>"));
  for (const TokenId token : legal_tokens(mask_of(constraint))) {
    const std::string_view text = tiny().bytes(token);
    EXPECT_TRUE(std::string_view("analysis").starts_with(text) ||
                std::string_view("commentary").starts_with(text))
        << text;
  }
  EXPECT_TRUE(accepts(constraint, "commentary<|message|>One moment.<|end|><|start|>assistant to=python"));
  EXPECT_TRUE(accepts(constraint, "<|channel|>analysis code<|message|>1<|call|>"));
  EXPECT_TRUE(constraint.has_ended());
}

TEST(TurnConstraint, AMessageEndsInItsTerminatorOnly) {
  const std::vector<std::pair<std::string, std::string>> kEnds{
      {"<|channel|>analysis<|message|>", "<|end|>"},
      {"<|channel|>commentary<|message|>", "<|end|>"},
      {"<|channel|>final<|message|>", "<|return|>"},
      {"<|channel|>analysis to=python code<|message|>", "<|call|>"}};
  for (const auto& [header, end] : kEnds) {
    TurnConstraint constraint = constraint_of(two_functions_and_python());
    ASSERT_TRUE(accepts(constraint, header));
    for (const char* text : {"", "Any text"}) {
      ASSERT_TRUE(accepts(constraint, text));
      const std::vector<uint32_t> mask = mask_of(constraint);
      for (TokenId token = 0; token < tiny().num_tokens(); ++token) {
        const std::string_view bytes = tiny().bytes(token);
        EXPECT_EQ(has_token(mask, token), bytes == end || (!tiny().is_special(token) && !bytes.empty()))
            << bytes;
      }
    }
  }
}

TEST(TurnConstraint, ATextUnderAGrammarEndsWhereItIsComplete) {
  TurnConstraint constraint = constraint_of({.body = grammar::compile_regex("ab?").grammar});
  ASSERT_TRUE(accepts(constraint, "<|channel|>final<|message|>"));
  EXPECT_THAT(legal_texts(constraint), Not(Contains("<|return|>")));
  ASSERT_TRUE(accepts(constraint, "a"));
  EXPECT_THAT(legal_texts(constraint), UnorderedElementsAre("b", "<|return|>"));
  EXPECT_FALSE(accepts(constraint, "<|end|>"));
  ASSERT_TRUE(accepts(constraint, "b"));
  EXPECT_THAT(legal_texts(constraint), ElementsAre("<|return|>"));
  ASSERT_TRUE(accepts(constraint, "<|return|>"));
  EXPECT_TRUE(constraint.has_ended());
  for (TokenId token = -1; token <= tiny().num_tokens(); ++token) EXPECT_FALSE(constraint.accept(token));
}

TEST(TurnConstraint, EachToolHasItsOwnArguments) {
  const TurnRules rules{.tools = {{"a.x", grammar::compile_choice({"1"}).grammar},
                                  {"a.xy", grammar::compile_choice({"2"}).grammar}}};
  for (const auto& [header, arguments] : std::vector<std::pair<std::string, std::string>>{
           {"<|channel|>commentary to=a.x<|message|>", "1"},
           {"<|channel|>commentary to=a.xy json<|message|>", "2"},
           {" to=a.x<|channel|>analysis <|constrain|>json<|message|>", "1"},
           {" to=a.xy<|channel|>analysis<|message|>", "2"}}) {
    TurnConstraint constraint = constraint_of(rules);
    ASSERT_TRUE(accepts(constraint, header));
    EXPECT_THAT(legal_texts(constraint), ElementsAre(arguments)) << header;
  }
}

TEST(TurnConstraint, AMaskMayBeLongerThanTheVocabulary) {
  TurnConstraint constraint = constraint_of({});
  const size_t num_words = tiny_trie().num_mask_words();
  for (const char* text : {"", "<|channel|>", "analysis<|message|>", "Hm.", "<|end|>"}) {
    ASSERT_TRUE(accepts(constraint, text));
    const std::vector<uint32_t> mask = mask_of(constraint), longer = mask_of(constraint, num_words + 3);
    EXPECT_TRUE(std::equal(mask.begin(), mask.end(), longer.begin()));
    EXPECT_THAT(std::vector(longer.end() - 3, longer.end()), testing::Each(0u));
  }
}

TEST(TurnConstraint, AForkGoesItsOwnWay) {
  TurnConstraint constraint =
      constraint_of({.tools = {{"python"}}, .body = grammar::compile_regex("[a-c]+").grammar});
  for (const char* text : {"<|channel|>", "final", "<|message|>", "a"}) {
    const std::unique_ptr<grammar::Constraint> fork = constraint.fork();
    const std::vector<uint32_t> mask = mask_of(constraint);
    ASSERT_TRUE(accepts(constraint, text));
    std::vector<uint32_t> of_fork(mask.size());
    fork->fill_mask(of_fork);
    EXPECT_EQ(of_fork, mask);
    for (const TokenId token : ids_of(text, tiny())) ASSERT_TRUE(fork->accept(token));
    fork->fill_mask(of_fork);
    EXPECT_EQ(of_fork, mask_of(constraint));
  }
}

TEST(TurnConstraint, GoesOnWithAMessageThatThePromptHasBegun) {
  const TurnRules rules{.body = grammar::compile_choice({"{\"a\":1}", "{\"b\":2}"}).grammar};
  TurnConstraint constraint = constraint_of(rules);
  constraint.accept_begun(ids_of("<|channel|>final<|message|>{\"b", tiny()));
  EXPECT_TRUE(accepts(constraint, "\":2}<|return|>"));
  EXPECT_TRUE(constraint.has_ended());

  for (const auto& [begun, where] : std::vector<std::pair<std::string, std::string>>{
           {"<|channel|>final<|message|>{\"c", "'c' may not follow '<|channel|>final<|message|>{\"'"},
           {"<|channel|>final<|message|>{\"a\":1}\n",
            "may not follow '<|channel|>final<|message|>{\"a\":1}'"},
           {" to=python<|channel|>", "may not follow ''"}})
    EXPECT_THAT(error_of([&, tokens = ids_of(begun, tiny())] { constraint_of(rules).accept_begun(tokens); }),
                testing::AllOf(HasSubstr("the message to continue does not match"), HasSubstr(where)));
}

TurnRules with_budget(int max_reasoning_tokens, TurnRules rules = {}) {
  rules.max_reasoning_tokens = max_reasoning_tokens;
  return rules;
}

// In the tests of budgets, "x" is one token of reasoning.
const std::string kAnalysis{"<|channel|>analysis<|message|>"}, kNext{"<|end|><|start|>assistant"};

TEST(TurnConstraint, AtItsBudgetReasoningMustEndAndNoMoreBegins) {
  TurnRules with_body = two_functions_and_python();
  with_body.body = grammar::compile_json_object().grammar;
  for (const TurnRules& rules : {TurnRules{}, two_functions_and_python(), with_body}) {
    TurnConstraint constraint = constraint_of(with_budget(3, rules)), unlimited = constraint_of(rules);
    ASSERT_TRUE(accepts(constraint, kAnalysis));
    ASSERT_TRUE(accepts(unlimited, kAnalysis));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(mask_of(constraint), mask_of(unlimited)) << i;
      EXPECT_TRUE(constraint.forced_tokens().empty());
      ASSERT_TRUE(accepts(constraint, "x"));
    }
    EXPECT_THAT(legal_texts(constraint), ElementsAre("<|end|>"));
    EXPECT_FALSE(accepts(constraint, "x"));
    ASSERT_TRUE(accepts(constraint, kNext + "<|channel|>"));
    TurnConstraint other = constraint;
    EXPECT_TRUE(accepts(constraint, "final<|message|>{}<|return|>"));
    EXPECT_TRUE(constraint.has_ended());
    if (rules.tools.empty()) {
      EXPECT_THAT(legal_texts(other), Not(Contains("a")));
      // A call on the analysis channel is not reasoning.
    } else {
      ASSERT_TRUE(accepts(other, "analysis"));
      EXPECT_FALSE(accepts(other, "<|message|>"));
      EXPECT_TRUE(accepts(other, " to=python code<|message|>1 + 1 is a long sum<|call|>"));
    }
  }
}

TEST(TurnConstraint, TheBudgetIsOfAllReasoningOfTheTurnAndOfNothingElse) {
  TurnConstraint constraint = constraint_of(with_budget(4, two_functions_and_python()));
  ASSERT_TRUE(accepts(constraint, kAnalysis + "xx" + kNext));
  ASSERT_TRUE(accepts(constraint, "<|channel|>commentary<|message|>Let me see, which takes words." + kNext));
  TurnConstraint empty = constraint;  // a thought without tokens uses none of the budget
  ASSERT_TRUE(accepts(empty, kAnalysis + kNext + kAnalysis + "xx"));
  EXPECT_THAT(legal_texts(empty), ElementsAre("<|end|>"));
  ASSERT_TRUE(accepts(constraint, kAnalysis + "x"));
  EXPECT_FALSE(legal_texts(constraint).size() == 1);
  EXPECT_TRUE(accepts(constraint, kNext + "<|channel|>analysis to=python<|message|>a long text"));
}

TEST(TurnConstraint, WithoutABudgetForReasoningThereIsNone) {
  TurnConstraint constraint = constraint_of(with_budget(0));
  EXPECT_FALSE(accepts(constraint, "<|channel|>a"));
  constraint = constraint_of(with_budget(0, {.body = grammar::compile_json_object().grammar}));
  EXPECT_TRUE(accepts(constraint, "<|channel|>final<|message|>{}<|return|>"));
  TurnRules rules = two_functions_and_python();
  rules.must_call = true;
  constraint = constraint_of(with_budget(0, rules));
  EXPECT_TRUE(accepts(constraint, "<|channel|>commentary to=python<|message|>1<|call|>"));
}

// Once the reasoning budget is used up, the next tokens are forced. At every position, masks, accepted tokens
// and forced tokens must agree. A fork counts its own reasoning tokens.
TEST(TurnConstraint, WhatFollowsTheLastReasoningIsForced) {
  const auto forced_text = [](TurnRules rules) {
    TurnConstraint constraint = constraint_of(with_budget(2, std::move(rules)));
    EXPECT_TRUE(accepts(constraint, kAnalysis + "x"));
    const std::unique_ptr<grammar::Constraint> fork = constraint.fork();
    EXPECT_TRUE(accepts(constraint, "x"));
    EXPECT_TRUE(fork->forced_tokens().empty());
    const std::vector<TokenId> forced = constraint.forced_tokens();
    std::string text;
    for (const TokenId token : forced) {
      EXPECT_TRUE(has_token(mask_of(constraint), token));
      EXPECT_TRUE(constraint.accept(token));
      text += tiny().bytes(token);
    }
    return text;
  };
  EXPECT_EQ(forced_text({}), "<|end|><|start|>assistant<|channel|>");
  EXPECT_EQ(forced_text(two_functions_and_python()), "<|end|><|start|>assistant");
  EXPECT_THAT(forced_text({.body = grammar::compile_json_object().grammar}),
              testing::StartsWith("<|end|><|start|>assistant<|channel|>"));
}

TEST(TurnConstraint, WhatThePromptHasOfTheReasoningIsNotOfTheBudget) {
  for (const int budget : {0, 2}) {
    TurnConstraint constraint = constraint_of(with_budget(budget));
    constraint.accept_begun(ids_of(kAnalysis + "xxxxx", tiny()));
    for (int i = 0; i < budget; ++i) ASSERT_TRUE(accepts(constraint, "x"));
    EXPECT_THAT(legal_texts(constraint), ElementsAre("<|end|>"));
  }
}

TEST(TurnGrammar, RefusesToolsThatNoHeaderCanName) {
  const auto error = [](TurnRules rules) { return error_of([&] { constraint_of(std::move(rules)); }); };
  EXPECT_THAT(error({.tools = {{"functions.get time"}}}), HasSubstr("'functions.get time'"));
  EXPECT_THAT(error({.tools = {{""}}}), HasSubstr("''"));
  EXPECT_THAT(error({.tools = {{"\xFF"}}}), HasSubstr("UTF-8"));
  EXPECT_THAT(error({.tools = {{"python"}, {"a"}, {"python"}}}), HasSubstr("two tools are named 'python'"));
  EXPECT_THAT(error({.must_call = true}), HasSubstr("there are no tools"));
  EXPECT_EQ(error({.tools = {{"functions.größe"}}}), "accepted");
}

TEST(TurnGrammar, HasRoomForThousandsOfTools) {
  TurnRules rules;
  for (int i = 0; i < 4000; ++i)
    rules.tools.push_back({"functions.a_tool_with_a_rather_long_name_" + std::to_string(i)});
  TurnConstraint constraint = constraint_of(rules);
  ASSERT_TRUE(accepts(constraint, "<|channel|>commentary to=functions.a_tool_with_a_rather_long_name_399"));
  EXPECT_THAT(legal_texts(constraint),
              testing::AllOf(Contains("9"), Contains("<|message|>"), Not(Contains("x"))));
}

}  // namespace
}  // namespace nibble::harmony
