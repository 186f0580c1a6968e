// A byte-level BPE vocabulary, read from a tokenizer.json or from a .tiktoken rank file.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/tokens/token.h"
#include "text/merges.h"
#include "text/vocabulary.h"

namespace nibble {

struct BpeModel {
  Vocabulary vocabulary;
  Merges merges;
  std::string split_expression;
  // "ignore_merges": if a piece equals the bytes of a token, it becomes that token without merging.
  bool takes_whole_pieces;
};

// Both functions throw an InputError that begins with `origin`.
BpeModel read_tokenizer_json(std::string_view json, const std::string& origin);
BpeModel read_tiktoken(std::string_view ranks, const std::string& origin);

// Returns the token of each single byte. Throws InputError if a byte has no token: text with that byte could
// not be encoded.
std::array<TokenId, 256> byte_tokens(const Vocabulary& vocabulary, const std::string& origin);

}  // namespace nibble
