// Helpers for tests of the parser.
#pragma once

#include <optional>
#include <vector>

#include "harmony/parse.h"
#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {

inline std::vector<ParsedMessage> parse(const std::vector<TokenId>& tokens, std::optional<Role> role,
                                        const Tokenizer& tokenizer = o200k()) {
  Parser parser(tokenizer, role);
  for (const TokenId token : tokens) parser.push(token);
  parser.finish();
  return parser.messages();
}

}  // namespace nibble::harmony
