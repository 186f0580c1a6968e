#include "cli/measure/sample_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/errors/check.h"

namespace nibble::cli {
namespace {

// Samples are "noisy" if their standard deviation exceeds this share of the mean.
constexpr double kNoisy{0.1};
// Minimum number of samples to call suspiciously equal: two can be equal by accident.
constexpr size_t kEnoughToDoubt{3};

// Whether all samples agree to five significant digits. Real measurements do not agree so well: of 95 tests
// with three or more repetitions in records/cuda-bench.jsonl, five agree to four digits and none to five.
bool look_equal(std::span<const double> samples) {
  const auto digits = [](double sample) { return fmt::format("{:.4e}", sample); };
  return std::ranges::all_of(samples,
                             [&](double sample) { return digits(sample) == digits(samples.front()); });
}

// Returns twice the number of pairs (x of a, y of b) with x > y, counting a pair with x = y as half a pair.
double pairs_won_twice(std::span<const double> a, std::span<const double> b) {
  double twice = 0;
  for (const double x : a)
    for (const double y : b) twice += x > y ? 2 : x == y ? 1 : 0;
  return twice;
}

// Returns the sum of t^3 - t over all groups of t equal samples, by which ties reduce the test's variance.
double tie_term(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  double sum = 0;
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::upper_bound(begin, all.end(), *begin);
    const auto count = static_cast<double>(end - begin);
    sum += count * count * count - count;
    begin = end;
  }
  return sum;
}

// Returns the result of rank_test(). `won`: number of pairs (a, b) with a > b, a tie counting as half a pair.
// `ties`: result of tie_term().
double chance_of(double won, double num_a, double num_b, double ties) {
  const double all = num_a + num_b;
  const double variance = num_a * num_b / 12 * (all + 1 - ties / (all * (all - 1)));
  const double distance = std::abs(won - num_a * num_b / 2) - 0.5;
  return variance > 0 && distance > 0 ? std::erfc(distance / std::sqrt(2 * variance)) : 1;
}

// Returns the ratios that the rank test does not reject. Sorts the ratios b / a of all pairs of samples. If r
// lies between the k-th and the next of these ratios, b exceeds r * a in all pairs except k. The test rejects
// r if the chance of k is below kNoiseChance.
std::optional<RatioInterval> ratio_interval(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (const double x : a)
    for (const double y : b) ratios.push_back(y / x);
  std::ranges::sort(ratios);
  const auto is_rejected = [&](size_t k) {
    return chance_of(static_cast<double>(k), static_cast<double>(a.size()), static_cast<double>(b.size()),
                     0) < kNoiseChance;
  };
  size_t num_rejected = 0;  // number of rejected ratios at each end
  while (2 * num_rejected < ratios.size() && is_rejected(num_rejected)) ++num_rejected;
  if (num_rejected == 0) return std::nullopt;
  return RatioInterval{ratios[num_rejected - 1], ratios[ratios.size() - num_rejected]};
}

}  // namespace

double rank_test(std::span<const double> a, std::span<const double> b) {
  NIBBLE_CHECK(!a.empty() && !b.empty(), "{} samples against {}", a.size(), b.size());
  return chance_of(pairs_won_twice(a, b) / 2, static_cast<double>(a.size()), static_cast<double>(b.size()),
                   tie_term(a, b));
}

Difference compare_speeds(std::span<const double> a, std::span<const double> b) {
  Difference difference{.ratio = statistics_of(b).median / statistics_of(a).median,
                        .chance = rank_test(a, b),
                        .interval = ratio_interval(a, b)};
  if (!difference.interval)
    difference.b_is = Comparison::kTooFewSamples;
  else if (difference.chance >= kNoiseChance || std::abs(difference.ratio - 1) < kSmallestDifference)
    difference.b_is = Comparison::kWithinNoise;
  else
    difference.b_is = difference.ratio > 1 ? Comparison::kFaster : Comparison::kSlower;
  return difference;
}

SampleStatistics statistics_of(std::span<const double> samples) {
  NIBBLE_CHECK(!samples.empty(), "no samples");
  const auto count = static_cast<double>(samples.size());
  SampleStatistics statistics;
  statistics.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;

  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  statistics.median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;

  double squares = 0;
  for (const double sample : samples) squares += (sample - statistics.mean) * (sample - statistics.mean);
  if (samples.size() > 1) statistics.standard_deviation = std::sqrt(squares / (count - 1));

  if (statistics.standard_deviation > kNoisy * statistics.mean) statistics.note = "noisy";
  if (samples.size() >= kEnoughToDoubt && look_equal(samples)) statistics.note = "suspiciously equal";
  return statistics;
}

}  // namespace nibble::cli
