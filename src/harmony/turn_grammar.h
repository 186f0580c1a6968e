// Compiles what an answer in harmony may be, once for all choices of a request. An answer, a turn, is what the model writes behind a
// prompt that ends in "<|start|>assistant":
//
//   turn    = { thought "<|start|>assistant" } (call | final)
//   thought = "<|channel|>" ("analysis" | "commentary") "<|message|>" TEXT "<|end|>"
//   call    = [to] "<|channel|>" ("analysis" | "commentary") [to] [type] "<|message|>" ARGUMENTS "<|call|>"
//   to      = " to=RECIPIENT"                                once in a call, here or there
//   type    = " json" | " code" | [" "] "<|constrain|>" ("json" | "code")
//   final   = "<|channel|>final" [[" "] "<|constrain|>json"] "<|message|>" BODY "<|return|>"
//
// These are the forms that the official renderer and the chat template write and that gpt-oss was seen to write (openai-harmony:
// docs/format.md; the parsers of llama.cpp and vLLM), and parse.h reads them without a repair. A header's words may be split into tokens
// in any way. A final message ends in <|return|>, and not in <|end|>, which stands there in a prompt: sampling does not stop at <|end|>,
// and the model would go on behind its answer. At <|endoftext|> it stops, but no message ends in it. Where the final message has a grammar,
// no thought is on "commentary": such a preamble is told to the user, and its words would stand before the text that is asked for.
//
// Reasoning is the text of the thoughts on "analysis". Where its tokens are limited, they are counted over all thoughts of the turn; at the
// limit the thought must end, and no other begins on that channel. A preamble is no reasoning, nor is a call, whatever its channel.
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
  std::vector<TurnTool> tools{};              // those that may be called
  bool must_call{false};                      // the turn ends in a call, never in a final message
  std::shared_ptr<grammar::Grammar> body{};   // the final message's; null: any text
  std::optional<int> max_reasoning_tokens{};  // 0: there is none; nothing: as long as the model likes
};

struct TurnGrammar {
  // The vocabulary must outlive this. Throws InputError if a recipient can't stand in a header or stands for two tools, if a call is
  // demanded and there is no tool, or if the vocabulary is not harmony's.
  TurnGrammar(TurnRules turn_rules, const grammar::VocabularyTrie& turn_vocabulary);

  const TurnTool& tool(std::string_view recipient) const;  // which is one of the rules'

  const TurnRules rules;
  const grammar::VocabularyTrie& vocabulary;
  const ControlTokens control;

  // A header's texts between two control tokens.
  using Text = std::shared_ptr<grammar::Grammar>;
  Text author;                       // behind <|start|>
  Text channel, channel_of_call;     // behind <|channel|>; where the recipient stood before it
  Text channel_behind_reasoning;     // where no more of it may come; null: it has no limit
  Text type_of_final, type_of_call;  // behind <|constrain|>
};

}  // namespace nibble::harmony
