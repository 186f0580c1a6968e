// The grammar of a harmony answer, compiled once for all choices of a request. An answer (a turn) follows a
// prompt that ends in "<|start|>assistant":
//   turn    = { thought "<|start|>assistant" } (call | final)
//   thought = "<|channel|>" ("analysis" | "commentary") "<|message|>" TEXT "<|end|>"
//   call    = [to] "<|channel|>" ("analysis" | "commentary") [to] [type] "<|message|>" ARGUMENTS "<|call|>"
//   to      = " to=RECIPIENT"                                once in a call, at either position
//   type    = " json" | " code" | [" "] "<|constrain|>" ("json" | "code")
//   final   = "<|channel|>final" [[" "] "<|constrain|>json"] "<|message|>" BODY "<|return|>"
// These forms are written by the official renderer and the chat template, were seen from gpt-oss
// (openai-harmony: docs/format.md; the parsers of llama.cpp and vLLM), and are read by parse.h without a
// repair. Headers may be split into tokens in any way. A final message ends in <|return|>, not in <|end|> as
// in a prompt, because sampling does not stop at <|end|>. Sampling also stops at <|endoftext|>, but that
// token is illegal, because it ends no message. If the final message has a grammar, no thought may be on
// "commentary": the user would see that preamble before the structured text.
//
// Reasoning is the text of thoughts on "analysis". A limit on its tokens counts over all thoughts of the
// turn. At the limit, the thought must end, and no other may begin. Preambles and calls are not reasoning.
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
  std::shared_ptr<grammar::Grammar> arguments{};  // grammar of the arguments; null: any text
};

struct TurnRules {
  std::vector<TurnTool> tools{};              // tools that may be called
  bool must_call{false};                      // whether the turn must end in a call, not in a final message
  std::shared_ptr<grammar::Grammar> body{};   // grammar of the final message; null: any text
  std::optional<int> max_reasoning_tokens{};  // 0: reasoning is illegal; absent: no limit
};

struct TurnGrammar {
  // The vocabulary must outlive this object. Throws InputError if a recipient can't appear in a header or
  // names two tools, if a call is required but `tools` is empty, or if the vocabulary is not harmony's.
  TurnGrammar(TurnRules turn_rules, const grammar::VocabularyTrie& turn_vocabulary);

  const TurnTool& tool(std::string_view recipient) const;  // `recipient` must be one of rules.tools

  const TurnRules rules;
  const grammar::VocabularyTrie& vocabulary;
  const ControlTokens control;

  // Grammars of the parts of a header's text, each between two control tokens.
  using Text = std::shared_ptr<grammar::Grammar>;
  Text author;  // text after <|start|>
  // Text after <|channel|>: channel_of_call if a recipient precedes <|channel|>, otherwise channel.
  Text channel, channel_of_call;
  Text channel_behind_reasoning;     // like `channel`, once the reasoning limit is reached; null: no limit
  Text type_of_final, type_of_call;  // text after <|constrain|>
};

}  // namespace nibble::harmony
