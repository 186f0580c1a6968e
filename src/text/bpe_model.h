// What a vocabulary file says, whichever kind it is.
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
  bool takes_whole_pieces;  // a piece that is a token is that token, whether merging would make it or not
};

// Both throw InputError that begins with `origin`.
BpeModel read_tokenizer_json(std::string_view json, const std::string& origin);
BpeModel read_tiktoken(std::string_view ranks, const std::string& origin);

// The tokens of the single bytes. All must be there, so that every text has tokens: throws InputError.
std::array<TokenId, 256> byte_tokens(const Vocabulary& vocabulary, const std::string& origin);

}  // namespace nibble
