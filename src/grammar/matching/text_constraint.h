// Constrains a whole answer to a text of one grammar.
#pragma once

#include <vector>

#include "grammar/matching/constraint.h"
#include "grammar/matching/matcher.h"

namespace nibble::grammar {

class TextConstraint final : public Constraint {
 public:
  // `end_tokens`: the tokens that may end a complete text; not empty. `vocabulary` must outlive this object.
  TextConstraint(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary,
                 std::vector<TokenId> end_tokens);

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<TextConstraint>(*this); }
  void fill_mask(std::span<uint32_t> mask) override;
  bool accept(TokenId token) override;
  std::vector<TokenId> forced_tokens() override;

 private:
  bool ends_with(TokenId token) const;

  Matcher matcher_;
  size_t num_words_;  // words of the matcher's mask; the mask given to fill_mask() may be longer
  std::vector<TokenId> end_tokens_;
  bool has_ended_{false};
};

}  // namespace nibble::grammar
