// The vocabulary for tests of answers, loaded once.
#pragma once

#include "tests/folders.h"
#include "text/tokenizer.h"

namespace nibble::server {

inline const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  return tokenizer;
}

}  // namespace nibble::server
