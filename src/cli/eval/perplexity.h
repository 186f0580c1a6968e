// Perplexity of a text: exp of the mean negative log-probability of its tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/progress.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct Perplexity {
  double per_token{0};
  double bits_per_byte{0};  // comparable between vocabularies
  int num_windows{0};
  size_t num_scored{0};  // tokens
};

// Cuts a text into windows of equal length, which are read independently. A shorter rest at the end is left out, unless it is the
// whole text. Throws InputError for a text of less than 2 tokens.
struct TextWindows {
  std::vector<TokenId> tokens;
  size_t length{0}, count{0};
  std::span<const TokenId> at(size_t index) const {
    return std::span(tokens).subspan(index * length, length);
  }
  size_t num_scored() const { return count * (length - 1); }  // every token of a window but the first
};
// `window`: tokens of each; `limit`: the most windows.
TextWindows cut_windows(const Tokenizer& tokenizer, const std::string& text, int window,
                        std::optional<int> limit);

// `report` counts tokens that are scored.
Perplexity measure_perplexity(Backend& backend, const BackendOptions& room, const Tokenizer& tokenizer,
                              const std::string& text, int window, std::optional<int> limit,
                              const ReportProgress& report = {});

}  // namespace nibble::cli
