#include "cli/measure/sample_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/check.h"

namespace nibble::cli {
namespace {

constexpr double kNoisy{0.1};        // standard deviation over mean
constexpr size_t kEnoughToDoubt{3};  // two may agree by chance

bool look_equal(std::span<const double> samples) {
  const auto digits = [](double sample) { return fmt::format("{:.3e}", sample); };  // four of them
  return std::all_of(samples.begin(), samples.end(),
                     [&](double sample) { return digits(sample) == digits(samples.front()); });
}

}  // namespace

SampleStatistics statistics_of(std::span<const double> samples) {
  NIBBLE_CHECK(!samples.empty(), "no samples");
  const auto count = static_cast<double>(samples.size());
  SampleStatistics statistics;
  statistics.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;

  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
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
