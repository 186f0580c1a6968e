// Helpers for tests of turns under a constraint. In texts, "<|start|>" and similar names are control tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tokens/token_mask.h"
#include "harmony/turn_constraint.h"
#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {

inline const grammar::VocabularyTrie& tiny_trie() {
  static const grammar::VocabularyTrie trie(tiny());
  return trie;
}

inline const grammar::VocabularyTrie& o200k_trie() {
  static const grammar::VocabularyTrie trie(o200k());
  return trie;
}

inline TurnConstraint constraint_of(TurnRules rules, const grammar::VocabularyTrie& trie = tiny_trie()) {
  return TurnConstraint(std::make_shared<const TurnGrammar>(std::move(rules), trie));
}

// Accepts the tokens of the text up to the first that is not legal. Returns whether all were legal.
inline bool accepts(TurnConstraint& constraint, std::string_view text, const Tokenizer& tokenizer = tiny()) {
  for (const TokenId token : ids_of(text, tokenizer))
    if (!constraint.accept(token)) return false;
  return true;
}

inline std::vector<uint32_t> mask_of(TurnConstraint& constraint,
                                     size_t num_words = tiny_trie().num_mask_words()) {
  std::vector<uint32_t> mask(num_words, 0xFFFFFFFF);
  constraint.fill_mask(mask);
  return mask;
}

inline std::vector<TokenId> legal_tokens(const std::vector<uint32_t>& mask) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 32); ++token)
    if (has_token(mask, token)) tokens.push_back(token);
  return tokens;
}

// Returns the texts of the tokens that may come next, ordered by id.
inline std::vector<std::string> legal_texts(TurnConstraint& constraint) {
  std::vector<std::string> texts;
  for (const TokenId token : legal_tokens(mask_of(constraint))) texts.emplace_back(tiny().bytes(token));
  return texts;
}

}  // namespace nibble::harmony
