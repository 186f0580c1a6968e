// Helpers for tests of expressions and of the pre-tokeniser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pre_tokeniser.h"

namespace nibble {

// Returns the pieces into which a pre-tokeniser with this expression splits the text.
inline std::vector<std::string> pieces(std::string_view expression, std::string_view text) {
  const PreTokeniser pre_tokeniser(expression, "test");
  PreTokeniser::Pieces cut(pre_tokeniser);
  cut.start(text);
  std::vector<std::string> all;
  while (const auto piece = cut.next()) all.emplace_back(*piece);
  return all;
}

}  // namespace nibble
