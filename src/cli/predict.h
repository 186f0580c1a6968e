// nibble predict: how fast a model would run on a GPU that need not be here, from a cost model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/prediction.h"
#include "cli/command.h"
#include "cli/measure/speed_tests.h"

namespace nibble::cli {

// A test as it is predicted: the mean over its steps.
struct PredictedTest {
  BenchTest test;
  int num_steps{0};
  std::vector<PredictedTime> operations;  // of a step
  double sums{0};                         // microseconds of a step that sums over devices take

  double microseconds() const;  // of a step
  size_t bytes() const;         // of weights and KV cache that a step reads
  double tokens_per_second() const;
};

// The mean over steps. `steps` are of the test, and not empty; an operation that some lack counts as nothing there.
PredictedTest mean_of(const BenchTest& test, std::span<const StepPrediction> steps);

Action define_predict(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
