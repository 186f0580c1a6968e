// The vocabularies of these tests, each loaded once, and helpers that read committed vectors.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "harmony/json_text.h"
#include "tests/folders.h"
#include "text/tokenizer.h"

namespace nibble::harmony {

inline const Tokenizer& o200k() {
  static const Tokenizer tokenizer = Tokenizer::open(test::build_path("test_data/o200k_base.tiktoken"));
  return tokenizer;
}

inline const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  return tokenizer;
}

inline TokenId control(const Tokenizer& tokenizer, std::string_view name) {
  return tokenizer.special(name).value();
}

// Encodes a text, in which "<|start|>" and similar names are control tokens.
inline std::vector<TokenId> ids_of(std::string_view text, const Tokenizer& tokenizer = o200k()) {
  return tokenizer.encode(text, SpecialTokens::kRecognise);
}

inline std::vector<Json> json_lines(const std::string& path) {
  std::ifstream in(test::source_path(path));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json(line, path));
  return lines;
}

}  // namespace nibble::harmony
