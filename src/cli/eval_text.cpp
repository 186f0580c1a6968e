#include "cli/eval_text.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "cli/sequence.h"
#include "core/error.h"

namespace nibble::cli {
namespace {

// -ln p(token) under these logits, in double: a mean over 10^5 tokens is to be right to the last figure shown.
double surprise(std::span<const float> logits, TokenId token) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum) - logits[static_cast<size_t>(token)];
}

}  // namespace

Perplexity measure_perplexity(Backend& backend, const BackendOptions& room, const Tokenizer& tokenizer,
                              const std::string& text, int window, std::optional<int> limit) {
  const std::vector<TokenId> tokens = tokenizer.encode(text, SpecialTokens::kOrdinary);
  if (tokens.size() < 2)
    throw InputError("a text of {} tokens has nothing to score: at least 2 are needed", tokens.size());
  const size_t length = std::min(static_cast<size_t>(window), tokens.size());
  size_t num_windows = tokens.size() / length;
  if (limit) num_windows = std::min(num_windows, static_cast<size_t>(*limit));

  Perplexity result;
  result.num_windows = static_cast<int>(num_windows);
  double sum = 0;
  size_t num_bytes = 0;
  for (size_t at = 0; at < num_windows * length; at += length) {
    const std::span<const TokenId> piece = std::span(tokens).subspan(at, length);
    Sequence sequence(backend, room);
    sequence.feed(piece.first(length - 1), [&](int position, std::span<const float> logits) {
      const TokenId next = piece[static_cast<size_t>(position) + 1];
      sum += surprise(logits, next);
      num_bytes += tokenizer.bytes(next).size();
    });
    result.num_scored += length - 1;
  }
  result.per_token = std::exp(sum / static_cast<double>(result.num_scored));
  result.bits_per_byte = sum / std::numbers::ln2 / static_cast<double>(num_bytes);
  return result;
}

}  // namespace nibble::cli
