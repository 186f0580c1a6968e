// Vocabularies for tests of grammars, and common checks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/tokens/token_mask.h"
#include "grammar/matching/matcher.h"
#include "tests/folders.h"
#include "text/tokenizer.h"

namespace nibble::grammar {

inline const Tokenizer& tiny_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  return tokenizer;
}

inline const VocabularyTrie& tiny_vocabulary() {
  static const VocabularyTrie vocabulary(tiny_tokenizer());
  return vocabulary;
}

// Returns whether the whole text is in the grammar.
inline bool accepts(const Compiled& compiled, std::string_view text) {
  Matcher matcher(compiled.grammar, tiny_vocabulary());
  return matcher.accept(text) && matcher.is_complete();
}

// Returns the mask, computed by trying every token.
inline std::vector<uint32_t> mask_by_trying(Matcher& matcher) {
  std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
  const size_t num_steps = matcher.num_steps();
  for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token) {
    if (!matcher.accept(token)) continue;
    add_token(mask, token);
    matcher.rollback(num_steps);
  }
  return mask;
}

// At every position of the text, compares the mask with trying every token.
inline void check_masks_along(const Compiled& compiled, std::string_view text) {
  Matcher matcher(compiled.grammar, tiny_vocabulary());
  std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
  for (const char byte : text) {
    matcher.fill_mask(mask);
    ASSERT_EQ(mask, mask_by_trying(matcher)) << text;
    ASSERT_TRUE(matcher.accept(std::string_view(&byte, 1))) << text;
  }
  EXPECT_TRUE(matcher.is_complete());
}

}  // namespace nibble::grammar
