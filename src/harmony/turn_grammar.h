// Compiles what a harmony answer may be, for all choices of a request. An answer (a turn) follows a prompt
// that ends in "<|start|>assistant":
//
//   turn    = { thought "<|start|>assistant" } (call | final)
//   thought = "<|channel|>" ("analysis" | "commentary") "<|message|>" TEXT "<|end|>"
//   call    = [to] "<|channel|>" ("analysis" | "commentary") [to] [type] "<|message|>" ARGUMENTS "<|call|>"
//   to      = " to=RECIPIENT"                                once in a call, at either position
//   type    = " json" | " code" | [" "] "<|constrain|>" ("json" | "code")
//   final   = "<|channel|>final" [[" "] "<|constrain|>json"] "<|message|>" BODY "<|return|>"
// The official renderer and the chat template write these forms, gpt-oss was seen to write them
// (openai-harmony: docs/format.md; the parsers of llama.cpp and vLLM), and parse.h reads them without a
// repair. Headers may be split into tokens in any way. A final message ends in <|return|>, not in <|end|> as
// in a prompt: sampling does not stop at <|end|>. It also stops at <|endoftext|>, which ends no message. If
// the final message has a grammar, no thought may be on "commentary": the user would see that preamble before
// the structured text.
//
// Reasoning is the text of thoughts on "analysis". A limit on its tokens counts over all thoughts of the
// turn; at the limit the thought must end, and no other may begin. Preambles and calls are no reasoning.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/program/grammar.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "harmony/control_tokens.h"

namespace nibble::harmony {

struct TurnTool {
  std::string recipient;                          // "functions.get_weather", "python"
  std::shared_ptr<grammar::Grammar> arguments{};  // null: any text
};

struct TurnRules {
  std::vector<TurnTool> tools{};              // tools that may be called
  bool must_call{false};                      // the turn ends in a call, never in a final message
  std::shared_ptr<grammar::Grammar> body{};   // grammar of the final message; null: any text
  std::optional<int> max_reasoning_tokens{};  // 0: no reasoning; absent: no limit
};

struct TurnGrammar {
  // The vocabulary must outlive this object. Throws InputError if a recipient can't appear in a header or
  // names two tools, if a call is required but `tools` is empty, or if the vocabulary is not harmony's.
  TurnGrammar(TurnRules turn_rules, const grammar::VocabularyTrie& turn_vocabulary);

  const TurnTool& tool(std::string_view recipient) const;  // `recipient` must be one of the rules'

  const TurnRules rules;
  const grammar::VocabularyTrie& vocabulary;
  const ControlTokens control;

  // The texts of a header between two control tokens.
  using Text = std::shared_ptr<grammar::Grammar>;
  Text author;                       // after <|start|>
  Text channel, channel_of_call;     // after <|channel|>; channel_of_call: after a recipient as well
  Text channel_behind_reasoning;     // like channel, when reasoning is at its limit; null: no limit
  Text type_of_final, type_of_call;  // after <|constrain|>
};

}  // namespace nibble::harmony
