// The content of a vocabulary file of either kind.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/token.h"
#include "text/merges.h"
#include "text/vocabulary.h"

namespace nibble {

struct BpeModel {
  Vocabulary vocabulary;
  Merges merges;
  std::string split_expression;
  bool takes_whole_pieces;  // a piece that equals a token becomes it without merging ("ignore_merges")
};

// Both throw InputError whose message begins with `origin`.
BpeModel read_tokenizer_json(std::string_view json, const std::string& origin);
BpeModel read_tiktoken(std::string_view ranks, const std::string& origin);

// The tokens of the single bytes. Throws InputError if one is missing, because then some texts would have no tokens.
std::array<TokenId, 256> byte_tokens(const Vocabulary& vocabulary, const std::string& origin);

}  // namespace nibble
