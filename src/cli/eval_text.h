// Perplexity of a text: exp of the mean negative log-probability of its tokens.
#pragma once

#include <optional>
#include <string>

#include "backend/backend.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct Perplexity {
  double per_token{0};
  double bits_per_byte{0};  // comparable between vocabularies
  int num_windows{0};
  size_t num_scored{0};  // tokens
};

// The text is cut into windows of `window` tokens, each read on its own; every token of a window but the first is scored.
// What is left at the end and is shorter is not read, unless it is all there is. `limit`: at most so many windows.
Perplexity measure_perplexity(Backend& backend, const BackendOptions& room, const Tokenizer& tokenizer,
                              const std::string& text, int window, std::optional<int> limit);

}  // namespace nibble::cli
