// Statistics over the repetitions of a measurement, and doubts about them.
#pragma once

#include <span>
#include <string_view>

namespace nibble::cli {

struct SampleStatistics {
  double mean{0}, median{0};
  double standard_deviation{0};  // estimate for the population (divides by n - 1); 0 for one sample
  std::string_view note;         // doubts about the samples: "noisy", "suspiciously equal"; empty if none
};

SampleStatistics statistics_of(std::span<const double> samples);  // at least one

// Two-sided rank test of Mann and Whitney. Returns the probability that samples of one distribution are
// at least as far apart as these. It compares which samples are larger, not by how much, so a single
// disturbed repetition does not decide. Uses the normal approximation, corrected for continuity and
// ties: for up to 12 samples against 12, it reports no difference that the exact test does not report.
// Needs at least one sample of each.
double rank_test(std::span<const double> a, std::span<const double> b);

enum class Comparison { kWithinNoise, kFaster, kSlower, kTooFewSamples };

struct Difference {
  double ratio{0};   // median of b over median of a
  double chance{0};  // rank_test
  Comparison b_is{};
};
// Speeds differ beyond the noise if the chance is below kNoiseChance and the medians are at least
// kSmallestDifference apart. The latter is the variation of the same program from day to day, which
// repetitions of one run do not show. There are too few samples if no distance between them could bring the
// chance below kNoiseChance: 3 against 3.
inline constexpr double kNoiseChance{0.05}, kSmallestDifference{0.01};
Difference compare_speeds(std::span<const double> a, std::span<const double> b);

}  // namespace nibble::cli
