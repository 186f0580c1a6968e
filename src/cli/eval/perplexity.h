// Perplexity of a text: exp of the mean negative log-probability of its tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/console/progress.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct Perplexity {
  double per_token{0};
  double bits_per_byte{0};  // comparable between vocabularies, unlike per_token
  int num_windows{0};
  size_t num_scored{0};  // number of tokens that were predicted
};

// Windows of equal length, evaluated independently. The end of a text is left out if it fills no window.
struct TextWindows {
  std::vector<TokenId> tokens;
  size_t length{0}, count{0};
  std::span<const TokenId> at(size_t index) const {
    return std::span(tokens).subspan(index * length, length);
  }
  // Returns the number of predicted tokens: all tokens of each window except its first.
  size_t num_scored() const { return count * (length - 1); }
};
// Cuts at most `limit` windows of `window` tokens. Throws InputError for a text of fewer than 2 tokens.
TextWindows cut_windows(const Tokenizer& tokenizer, const std::string& text, int window,
                        std::optional<int> limit);

// `report` counts scored tokens.
Perplexity measure_perplexity(Backend& backend, const BackendOptions& room, const Tokenizer& tokenizer,
                              const TextWindows& windows, const ReportProgress& report = {});

}  // namespace nibble::cli
