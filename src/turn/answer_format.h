// Constrains answers by --json-schema or --grammar, and reasoning by --reasoning-budget.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/program/settings.h"
#include "grammar/languages/source.h"
#include "grammar/matching/constraint.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "harmony/message.h"
#include "harmony/turn_grammar.h"
#include "text/tokenizer.h"

namespace nibble {

// The form of an answer: a grammar, and a limit on the reasoning.
struct AnswerForm {
  std::optional<grammar::Source> source{};    // absent: any text
  std::string origin{};                       // names the source in messages, such as its file; may be empty
  std::optional<int> max_reasoning_tokens{};  // absent: no limit
};

// Reads the files of --json-schema or --grammar. Throws InputError.
AnswerForm answer_form(const Settings& settings);

// Returns the form's JSON schema as the prompt describes it; nullopt if the form has no JSON schema.
std::optional<harmony::ResponseFormat> response_format(const AnswerForm& form);

class AnswerFormat {
 public:
  // The tokenizer must outlive this object and its constraints.
  explicit AnswerFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the constraint of a chat's answer (reasoning, final message, calls) or of raw text; null if the
  // form allows any answer. `tools`: the tools that a constrained chat answer may call. Throws InputError.
  std::shared_ptr<const grammar::Constraint> constraint(const AnswerForm& form, bool is_chat,
                                                        std::vector<harmony::TurnTool> tools = {});
  std::shared_ptr<const grammar::Constraint> constraint(const Settings& settings, bool is_chat) {
    return constraint(answer_form(settings), is_chat);
  }

 private:
  const Tokenizer& tokenizer_;
  std::optional<grammar::VocabularyTrie> vocabulary_;  // made on first use: it takes 0.15 s
};

}  // namespace nibble
