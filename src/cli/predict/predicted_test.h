#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/prediction.h"
#include "cli/measure/speed_tests.h"

namespace nibble::cli {

struct PredictedTest {
  BenchTest test;        // the test that each sequence runs
  int num_sequences{1};  // number of sequences that decode together
  int num_steps{0};
  std::vector<PredictedTime> operations;  // mean per step
  double sums{0};                         // time of a step's all-reduces in microseconds
  ExpertLoad load{};                      // load per layer of the device with the largest load

  double microseconds() const;  // time per step
  size_t bytes() const;         // weights and KV cache read per step
  double bytes_per_second() const;
  double tokens_per_second() const;  // all sequences together
};
std::string name(const PredictedTest& test);  // "tg128 @ d4096 x 64"

// Returns the mean over the steps of a test; `steps` must not be empty. An operation counts as 0 in steps
// that do not run it.
PredictedTest mean_of(const BenchTest& test, std::span<const StepPrediction> steps, int num_sequences = 1);

}  // namespace nibble::cli
