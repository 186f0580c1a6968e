#include "cli/eval/compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/eval/logits.h"
#include "cli/measure/backend_sequence.h"

namespace nibble::cli {
namespace {

// The two models take turns after this number of tokens, to keep few logits in memory (51 MB for gpt-oss).
constexpr size_t kChunk{64};

// Returns the smallest value that 99 % of the samples do not exceed.
double percentile_99(std::vector<double> values) {
  const size_t place = (values.size() * 99 + 99) / 100 - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

}  // namespace

QualityComparison compare_models(Backend& quantised, Backend& unquantised, const BackendOptions& room,
                                 const TextWindows& windows, const ReportProgress& report) {
  const size_t vocab = static_cast<size_t>(unquantised.config().vocab);
  std::vector<double> divergences;
  Meter meter(windows.num_scored(), report);
  size_t num_agreed = 0;
  double surprise = 0, unquantised_surprise = 0;
  std::vector<float> held;
  for (size_t w = 0; w < windows.count; ++w) {
    const std::span<const TokenId> piece = windows.at(w);
    BackendSequence one(unquantised, room), other(quantised, room);
    for (size_t first = 0; first + 1 < piece.size(); first += kChunk) {
      const auto chunk = piece.subspan(first, std::min(kChunk, piece.size() - 1 - first));
      held.clear();
      one.feed(chunk, [&](int, std::span<const float> p) { held.insert(held.end(), p.begin(), p.end()); });
      other.feed(chunk, [&](int position, std::span<const float> q) {
        const auto at = static_cast<size_t>(position);
        const auto p = std::span<const float>(held).subspan((at - first) * vocab, vocab);
        const auto next = static_cast<size_t>(piece[at + 1]);
        divergences.push_back(kl_divergence(p, q));
        num_agreed += likeliest(p) == likeliest(q);
        surprise += log_sum_exp(q) - q[next];
        unquantised_surprise += log_sum_exp(p) - p[next];
        meter.add(1);
      });
    }
  }
  const auto num_scored = static_cast<double>(divergences.size());
  QualityComparison result;
  for (const double divergence : divergences) result.mean_kl += divergence / num_scored;
  result.top1_agreement = static_cast<double>(num_agreed) / num_scored;
  result.perplexity = std::exp(surprise / num_scored);
  result.unquantised_perplexity = std::exp(unquantised_surprise / num_scored);
  result.num_windows = static_cast<int>(windows.count);
  result.num_scored = divergences.size();
  result.p99_kl = percentile_99(std::move(divergences));
  return result;
}

}  // namespace nibble::cli
