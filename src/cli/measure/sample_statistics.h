// Statistics over the repetitions of a measurement, and doubts about them.
#pragma once

#include <span>
#include <string_view>

namespace nibble::cli {

struct SampleStatistics {
  double mean{0}, median{0};
  double standard_deviation{0};  // of the population that the samples are drawn from; 0 for one sample
  std::string_view note;         // empty, or why to doubt it: "noisy", "suspiciously equal"
};

SampleStatistics statistics_of(std::span<const double> samples);  // at least one

// The two-sided rank test of Mann and Whitney: how likely samples of one distribution would lie as far apart as these. It asks which
// samples are larger, not by how much, so that one repetition that was disturbed does not decide. It is the normal approximation,
// corrected for continuity and ties: up to 12 samples against 12 it calls nothing a difference that the exact test does not call so.
// At least one sample of each.
double rank_test(std::span<const double> a, std::span<const double> b);

enum class Comparison { kWithinNoise, kFaster, kSlower, kTooFewSamples };

struct Difference {
  double ratio{0};   // of the medians, b over a
  double chance{0};  // rank_test
  Comparison b_is{};
};
// Speeds differ beyond the noise where the chance is below kNoiseChance and the medians are at least kSmallestDifference apart: by so
// much the same program differs from day to day, which repetitions of one run do not show. Samples are too few where no distance
// between them would bring the chance below kNoiseChance: 3 against 3.
inline constexpr double kNoiseChance{0.05}, kSmallestDifference{0.01};
Difference compare_speeds(std::span<const double> a, std::span<const double> b);

}  // namespace nibble::cli
