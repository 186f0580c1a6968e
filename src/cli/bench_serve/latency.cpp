#include "cli/bench_serve/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/errors/check.h"

namespace nibble::cli {
namespace {

// Returns the largest number of concurrent requests. At equal times, an end counts before a start.
int most_at_once(std::span<const TimedAnswer> answers) {
  std::vector<std::pair<double, int>> changes;
  for (const TimedAnswer& answer : answers) {
    changes.emplace_back(answer.sent, 1);
    changes.emplace_back(answer.ended, -1);
  }
  std::ranges::sort(changes);
  int open = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, open += change);
  return most;
}

int64_t num_tokens_of(const TimedAnswer& answer) {
  return answer.num_output_tokens.value_or(static_cast<int64_t>(answer.events.size()));
}

struct AnswerSamples {
  std::vector<double> ttfr, est_ppt, prefill_speed, ttft, itl, tpot, e2e;

  void add(const TimedAnswer& answer, std::optional<double> latency) {
    const AnswerTimes times = times_of(answer);
    e2e.push_back(times.e2e);
    if (times.ttft) ttft.push_back(*times.ttft);
    if (times.tpot) tpot.push_back(*times.tpot);
    for (size_t i = 1; i < answer.events.size(); ++i) itl.push_back(answer.events[i] - answer.events[i - 1]);
    if (!times.ttfr) return;
    ttfr.push_back(*times.ttfr);
    if (!latency) return;
    est_ppt.push_back(std::max(0.0, *times.ttfr - *latency));
    if (!answer.num_prompt_tokens || est_ppt.back() == 0) return;
    const int64_t num_computed = *answer.num_prompt_tokens - answer.num_cached_tokens.value_or(0);
    prefill_speed.push_back(static_cast<double>(num_computed) / est_ppt.back());
  }
};

}  // namespace

AnswerTimes times_of(const TimedAnswer& answer) {
  AnswerTimes times{.ttfr = {}, .ttft = {}, .tpot = {}, .e2e = answer.ended - answer.sent};
  if (answer.first_response) times.ttfr = *answer.first_response - answer.sent;
  if (answer.events.empty()) return times;
  times.ttft = answer.events.front() - answer.sent;
  const int64_t num_tokens = num_tokens_of(answer);
  if (num_tokens > 1) times.tpot = (times.e2e - *times.ttft) / static_cast<double>(num_tokens - 1);
  return times;
}

std::optional<double> LoadSummary::interactivity() const {
  if (!tpot || tpot->p50 <= 0) return std::nullopt;
  return 1 / tpot->p50;
}

std::optional<Percentiles> percentiles_of(std::vector<double> samples) {
  if (samples.empty()) return std::nullopt;
  std::ranges::sort(samples);
  const auto at = [&](double share) {
    const double rank = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<size_t>(rank);
    const size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] + (rank - std::floor(rank)) * (samples[above] - samples[below]);
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return Percentiles{
      sum / static_cast<double>(samples.size()), at(0.5), at(0.9), at(0.95), at(0.99), samples.back()};
}

LoadSummary summarise(std::span<const TimedAnswer> answers, std::optional<double> latency) {
  NIBBLE_CHECK(!answers.empty(), "no answers");
  LoadSummary summary;
  summary.num_requests = static_cast<int>(answers.size());
  summary.max_open = most_at_once(answers);
  double first = answers[0].sent, last = answers[0].ended;
  AnswerSamples samples;
  for (const TimedAnswer& answer : answers) {
    first = std::min(first, answer.sent);
    last = std::max(last, answer.ended);
    if (!answer.error.empty()) {
      ++summary.num_failed;
      ErrorCount& error = summary.errors[answer.error];
      if (error.count++ == 0) error.example = answer.example;
      continue;
    }
    summary.num_uncounted += !answer.num_output_tokens;
    summary.num_output_tokens += num_tokens_of(answer);
    summary.num_prompt_tokens += answer.num_prompt_tokens.value_or(0);
    if (answer.num_cached_tokens)
      summary.num_cached_tokens = summary.num_cached_tokens.value_or(0) + *answer.num_cached_tokens;
    samples.add(answer, latency);
  }
  summary.seconds = last - first;
  summary.ttfr = percentiles_of(std::move(samples.ttfr));
  summary.est_ppt = percentiles_of(std::move(samples.est_ppt));
  summary.prefill_speed = percentiles_of(std::move(samples.prefill_speed));
  summary.ttft = percentiles_of(std::move(samples.ttft));
  summary.itl = percentiles_of(std::move(samples.itl));
  summary.tpot = percentiles_of(std::move(samples.tpot));
  summary.e2e = percentiles_of(std::move(samples.e2e));
  return summary;
}

}  // namespace nibble::cli
