// Holds answers to the form that --json-schema or --grammar asks for, and their reasoning to --reasoning-budget.
#pragma once

#include <memory>
#include <optional>

#include "core/settings.h"
#include "grammar/matching/constraint.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Gives what the prompt tells the model of the schema; nothing where there is none. Throws InputError.
std::optional<harmony::ResponseFormat> response_format(const Settings& settings);

class AnswerFormat {
 public:
  // The tokenizer must outlive this and what it makes.
  explicit AnswerFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // null where the settings ask for neither. In a chat the final message has the form, in a raw text all that is written. Throws
  // InputError.
  std::shared_ptr<const grammar::Constraint> constraint(const Settings& settings, bool is_chat);

 private:
  const Tokenizer& tokenizer_;
  std::optional<grammar::VocabularyTrie> vocabulary_;  // made when it is needed first: that takes 0.15 s
};

}  // namespace nibble::cli
