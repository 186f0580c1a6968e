// Statistics of the repetitions of a measurement, and doubts about them.
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

// Two-sided Mann-Whitney rank test: the probability that samples of one distribution are at least this far
// apart. Only the order of samples counts, so one disturbed repetition does not decide. Normal approximation
// with corrections for continuity and ties; up to 12 against 12 samples it reports no difference that the
// exact test does not. Needs a sample of each.
double rank_test(std::span<const double> a, std::span<const double> b);

enum class Comparison { kWithinNoise, kFaster, kSlower, kTooFewSamples };

struct Difference {
  double ratio{0};   // median of b over median of a
  double chance{0};  // rank_test
  Comparison b_is{};
};
// Speeds differ beyond the noise if the chance is below kNoiseChance and the medians are at least
// kSmallestDifference apart: the day-to-day variation of one program, which repetitions of one run do not
// show. kTooFewSamples: no distance could bring the chance below kNoiseChance, as with 3 against 3.
inline constexpr double kNoiseChance{0.05}, kSmallestDifference{0.01};
Difference compare_speeds(std::span<const double> a, std::span<const double> b);

}  // namespace nibble::cli
