// A test of `nibble predict`, the mean over its steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/prediction.h"
#include "cli/measure/speed_tests.h"

namespace nibble::cli {

struct PredictedTest {
  BenchTest test;        // of each sequence
  int num_sequences{1};  // that decode together
  int num_steps{0};
  std::vector<PredictedTime> operations;  // of a step
  double sums{0};                         // microseconds of a step that sums over devices take
  ExpertLoad load{};                      // in a layer, of the device with the most

  double microseconds() const;  // of a step
  size_t bytes() const;         // of weights and KV cache that a step reads
  double bytes_per_second() const;
  double tokens_per_second() const;  // of all sequences
};
std::string name(const PredictedTest& test);  // "tg128 @ d4096 x 64"

double microseconds_of(const StepPrediction& step);

// The mean over steps. `steps` are of the test, and not empty; an operation that some lack counts as nothing there.
PredictedTest mean_of(const BenchTest& test, std::span<const StepPrediction> steps, int num_sequences = 1);

}  // namespace nibble::cli
