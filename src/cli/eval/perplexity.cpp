#include "cli/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cli/eval/logits.h"
#include "cli/measure/backend_sequence.h"
#include "core/errors/error.h"

namespace nibble::cli {

TextWindows cut_windows(const Tokenizer& tokenizer, const std::string& text, int window,
                        std::optional<int> limit) {
  TextWindows windows{tokenizer.encode(text, SpecialTokens::kOrdinary), 0, 0};
  if (windows.tokens.size() < 2)
    throw InputError("a text of {} tokens is too short to score: at least 2 are needed",
                     windows.tokens.size());
  windows.length = std::min(static_cast<size_t>(window), windows.tokens.size());
  windows.count = windows.tokens.size() / windows.length;
  if (limit) windows.count = std::min(windows.count, static_cast<size_t>(*limit));
  return windows;
}

Perplexity measure_perplexity(Backend& backend, const BackendOptions& room, const Tokenizer& tokenizer,
                              const TextWindows& windows, const ReportProgress& report) {
  Perplexity result;
  result.num_windows = static_cast<int>(windows.count);
  result.num_scored = windows.num_scored();
  Meter meter(result.num_scored, report);
  double sum = 0;
  size_t num_bytes = 0;
  for (size_t w = 0; w < windows.count; ++w) {
    const std::span<const TokenId> piece = windows.at(w);
    BackendSequence sequence(backend, room);
    sequence.feed(piece.first(piece.size() - 1), [&](int position, std::span<const float> logits) {
      const TokenId next = piece[static_cast<size_t>(position) + 1];
      sum += log_sum_exp(logits) - logits[static_cast<size_t>(next)];
      num_bytes += tokenizer.bytes(next).size();
      meter.add(1);
    });
  }
  result.per_token = std::exp(sum / static_cast<double>(result.num_scored));
  result.bits_per_byte = sum / std::numbers::ln2 / static_cast<double>(num_bytes);
  return result;
}

}  // namespace nibble::cli
