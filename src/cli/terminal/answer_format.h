// Constrains answers to --json-schema or --grammar, and their reasoning to --reasoning-budget.
#pragma once

#include <memory>
#include <optional>

#include "core/settings.h"
#include "grammar/matching/constraint.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Returns the description of the JSON schema for the prompt; nullopt without
// --json-schema. Throws InputError.
std::optional<harmony::ResponseFormat> response_format(const Settings& settings);

class AnswerFormat {
 public:
  // The tokenizer must outlive this object and the constraints that it makes.
  explicit AnswerFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the constraint of an answer; null if the settings require none. In a chat it applies to the final
  // message, in a raw text to the whole output. Throws InputError.
  std::shared_ptr<const grammar::Constraint> constraint(const Settings& settings, bool is_chat);

 private:
  const Tokenizer& tokenizer_;
  std::optional<grammar::VocabularyTrie> vocabulary_;  // made on first use: it takes 0.15 s
};

}  // namespace nibble::cli
