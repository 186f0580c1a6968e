#include "grammar/matching/text_constraint.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"
#include "core/tokens/token_mask.h"

namespace nibble::grammar {

TextConstraint::TextConstraint(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary,
                               std::vector<TokenId> end_tokens)
    : matcher_(std::move(grammar), vocabulary),
      num_words_(vocabulary.num_mask_words()),
      end_tokens_(std::move(end_tokens)) {
  NIBBLE_CHECK(!end_tokens_.empty(), "nothing ends the text");
}

void TextConstraint::fill_mask(std::span<uint32_t> mask) {
  NIBBLE_CHECK(!has_ended_ && mask.size() >= num_words_, "{} words of {}", mask.size(), num_words_);
  std::ranges::fill(mask, 0);
  matcher_.fill_mask(mask.first(num_words_));
  if (!matcher_.is_complete()) return;
  for (const TokenId token : end_tokens_) add_token(mask, token);
}

bool TextConstraint::ends_with(TokenId token) const {
  return matcher_.is_complete() && std::ranges::find(end_tokens_, token) != end_tokens_.end();
}

bool TextConstraint::accept(TokenId token) {
  if (has_ended_) return false;
  if (ends_with(token)) return has_ended_ = true;
  return matcher_.accept(token);
}

std::vector<TokenId> TextConstraint::forced_tokens() {
  if (has_ended_) return {};
  std::vector<TokenId> forced = matcher_.forced_tokens();
  if (end_tokens_.size() != 1) return forced;
  const size_t before = matcher_.num_steps();
  for (const TokenId token : forced) NIBBLE_CHECK(matcher_.accept(token), "token {}", token);
  if (matcher_.is_finished()) forced.push_back(end_tokens_.front());
  matcher_.rollback(before);
  return forced;
}

}  // namespace nibble::grammar
