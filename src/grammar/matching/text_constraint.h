// Constrains an answer that is one text of a grammar from its first token to its end.
#pragma once

#include <vector>

#include "grammar/matching/constraint.h"
#include "grammar/matching/matcher.h"

namespace nibble::grammar {

class TextConstraint final : public Constraint {
 public:
  // After the text one of `end_tokens` (not empty) stops the engine. The vocabulary must outlive this object.
  TextConstraint(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary,
                 std::vector<TokenId> end_tokens);

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<TextConstraint>(*this); }
  void fill_mask(std::span<uint32_t> mask) override;
  bool accept(TokenId token) override;
  std::vector<TokenId> forced_tokens() override;

 private:
  bool ends_with(TokenId token) const;

  Matcher matcher_;
  size_t num_words_;  // of the matcher's masks; the model's vocabulary may be larger
  std::vector<TokenId> end_tokens_;
  bool has_ended_{false};
};

}  // namespace nibble::grammar
