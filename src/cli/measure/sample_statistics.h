// Statistics of the repetitions of a measurement, and doubts about the samples.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace nibble::cli {

struct SampleStatistics {
  double mean{0}, median{0};
  double standard_deviation{0};  // estimate for the population (divisor n - 1); 0 for one sample
  std::string_view note;         // doubts: "noisy", "suspiciously equal"; empty if none
};

SampleStatistics statistics_of(std::span<const double> samples);  // needs at least one sample

// Two-sided Mann-Whitney rank test: the probability that two sets of samples of one distribution differ at
// least as much as `a` and `b`. Only the order of samples counts, so a single disturbed repetition has little
// effect. Uses the normal approximation, corrected for continuity and ties; with up to 12 samples per set, it
// reports no difference that the exact test would not report. Both sets need at least one sample.
double rank_test(std::span<const double> a, std::span<const double> b);

enum class Comparison { kWithinNoise, kFaster, kSlower, kTooFewSamples };

// The 95 % confidence interval of the ratio of b to a: all ratios r for which the rank test of b and r * a
// gives a chance of kNoiseChance or more. Its ends are ratios of a sample of b to a sample of a.
struct RatioInterval {
  double low{0}, high{0};
};

struct Difference {
  double ratio{0};   // median of b over median of a
  double chance{0};  // result of rank_test(): probability that noise alone causes such a difference
  Comparison b_is{};
  std::optional<RatioInterval> interval;  // nullopt: too few samples
};
// Speeds differ (kFaster, kSlower) if the chance is below kNoiseChance and the medians differ by
// kSmallestDifference or more; smaller differences occur from day to day. kTooFewSamples: with 3 samples
// against 3, for example, no speeds could bring the chance below kNoiseChance.
inline constexpr double kNoiseChance{0.05}, kSmallestDifference{0.01};
Difference compare_speeds(std::span<const double> a, std::span<const double> b);

}  // namespace nibble::cli
