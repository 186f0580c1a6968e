// What the repetitions of a measurement say together, and whether that is to be believed.
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

}  // namespace nibble::cli
