// Constrains answers by --json-schema or --grammar, and reasoning by --reasoning-budget.
#pragma once

#include <memory>
#include <optional>

#include "core/settings.h"
#include "grammar/matching/constraint.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Returns the JSON schema's description for the prompt; nullopt without --json-schema. Throws InputError.
std::optional<harmony::ResponseFormat> response_format(const Settings& settings);

class AnswerFormat {
 public:
  // The tokenizer must outlive this object and its constraints.
  explicit AnswerFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Constrains a chat's final message, or the whole raw text; null without a constraint. Throws InputError.
  std::shared_ptr<const grammar::Constraint> constraint(const Settings& settings, bool is_chat);

 private:
  const Tokenizer& tokenizer_;
  std::optional<grammar::VocabularyTrie> vocabulary_;  // made on first use, which takes 0.15 s
};

}  // namespace nibble::cli
