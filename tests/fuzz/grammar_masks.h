// Checks the token masks of any grammar that compiles, along one pseudo-random text. The choices depend only
// on the input, so that one input is always the same case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/errors/check.h"
#include "core/tokens/token_mask.h"
#include "grammar/matching/matcher.h"
#include "text/tokenizer.h"

namespace nibble::grammar {

// Returns a vocabulary with every byte and about 40 longer tokens of the relevant kinds. It is small, so that
// most fuzzing time is spent on the grammar.
inline const VocabularyTrie& fuzz_vocabulary() {
  static const Tokenizer tokenizer = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* more :
         {"aa",    "ab",    "ba",  "bb",     "abc",  "aaaa",     "\"a",          "\"a\"",    "\":",
          "\":\"", "\",\"", "{\"", "\"}",    "},",   "]}",       "[]",           "{}",       "[[",
          "00",    "12",    "123", "-1",     ".5",   "1.5",      "e1",           "true",     "tr",
          "ue",    "null",  "nu",  "\\u",    "\\\"", "\n",       "\n ",          "\n\t",     "  ",
          "    ",  ", ",    ": ",  "\u00e9", "\xc3", "\xa9\xc3", "\u4e16\u754c", "\xf0\x9f", "\x98\x80x"})
      if (std::find(tokens.begin(), tokens.end(), more) == tokens.end()) tokens.push_back(more);
    constexpr char kDigits[]{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
    std::string ranks;
    for (size_t rank = 0; rank < tokens.size(); ++rank) {
      std::string bytes = tokens[rank], base64;
      const size_t num_bytes = bytes.size();
      bytes.resize((num_bytes + 2) / 3 * 3);
      for (size_t i = 0; i < bytes.size() * 4 / 3; ++i) {
        const size_t bit = i * 6;
        const unsigned pair =
            static_cast<unsigned char>(bytes[bit / 8]) << 8 |
            (bit / 8 + 1 < bytes.size() ? static_cast<unsigned char>(bytes[bit / 8 + 1]) : 0u);
        base64 += kDigits[pair >> (10 - bit % 8) & 63];
      }
      for (size_t i = 0; i < bytes.size() - num_bytes; ++i) base64[base64.size() - 1 - i] = '=';
      ranks += base64 + " " + std::to_string(rank) + "\n";
    }
    return Tokenizer::from_tiktoken(ranks, "fuzz");
  }();
  static const VocabularyTrie vocabulary(tokenizer);
  return vocabulary;
}

// Checks that a bit is set if and only if its token is accepted, that the mask is empty only at the end, that
// forced tokens are accepted, and that rolling back restores the state. May throw InputError if the grammar
// is too costly.
inline void check_masks(const Compiled& compiled, uint64_t chance) {
  const VocabularyTrie& vocabulary = fuzz_vocabulary();
  const int num_tokens = vocabulary.tokenizer().num_tokens();
  const auto below = [&](size_t n) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((chance >> 33) % n);
  };
  Matcher matcher(compiled.grammar, vocabulary);
  std::vector<uint32_t> mask(vocabulary.num_mask_words()), again(mask.size());
  for (int step = 0; step < 6; ++step) {
    matcher.fill_mask(mask);
    std::vector<TokenId> legal;
    for (TokenId token = 0; token < num_tokens; ++token)
      if (has_token(mask, token)) legal.push_back(token);
    NIBBLE_CHECK(legal.empty() == matcher.is_finished());
    if (legal.empty()) return;
    const size_t num_steps = matcher.num_steps();
    for (int tries = 0; tries < 8; ++tries) {
      const auto token = static_cast<TokenId>(below(static_cast<size_t>(num_tokens)));
      const bool is_legal = has_token(mask, token);
      NIBBLE_CHECK(matcher.accept(token) == is_legal, "token {}", token);
      matcher.rollback(num_steps);
    }
    const std::string forced = matcher.forced_bytes();
    if (!forced.empty()) {
      NIBBLE_CHECK(matcher.accept(forced), "{}", forced);
      matcher.rollback(num_steps);
    }
    for (const TokenId token : matcher.forced_tokens())
      NIBBLE_CHECK(matcher.accept(token), "forced token {}", token);
    matcher.rollback(num_steps);
    matcher.fill_mask(again);
    NIBBLE_CHECK(mask == again);
    NIBBLE_CHECK(matcher.accept(legal[below(legal.size())]));
  }
}

}  // namespace nibble::grammar
