#include "cli/predict/predicted_test.h"

#include <fmt/format.h>

namespace nibble::cli {
double PredictedTest::microseconds() const { return total_of(operations); }

size_t PredictedTest::bytes() const {
  size_t sum = 0;
  for (const PredictedTime& row : operations) sum += row.bytes;
  return sum;
}

double PredictedTest::bytes_per_second() const { return static_cast<double>(bytes()) / microseconds() * 1e6; }

double PredictedTest::tokens_per_second() const {
  return static_cast<double>(test.num_tokens) * num_sequences / (microseconds() * num_steps) * 1e6;
}

std::string name(const PredictedTest& test) {
  const std::string of_one = name(test.test);
  return test.num_sequences == 1 ? of_one : fmt::format("{} x {}", of_one, test.num_sequences);
}

PredictedTest mean_of(const BenchTest& test, std::span<const StepPrediction> steps, int num_sequences) {
  PredictedTest mean{.test = test,
                     .num_sequences = num_sequences,
                     .num_steps = static_cast<int>(steps.size()),
                     .operations = {}};
  for (const StepPrediction& step : steps) {
    mean.sums += step.sums / mean.num_steps;
    mean.load.hit += step.load.hit / mean.num_steps;
    mean.load.pairs += step.load.pairs / mean.num_steps;
  }
  for (const Operation operation : kOperations) {
    PredictedTime sum{.operation = operation};
    bool is_there = false;
    for (const StepPrediction& step : steps)
      for (const PredictedTime& row : step.operations)
        if (row.operation == operation) {
          sum += row;
          is_there = true;
        }
    if (!is_there) continue;
    for (double* part : {&sum.memory, &sum.issue, &sum.products, &sum.serial}) *part /= mean.num_steps;
    sum.bytes /= steps.size();
    sum.num_launches = (sum.num_launches + mean.num_steps - 1) / mean.num_steps;
    mean.operations.push_back(sum);
  }
  return mean;
}

}  // namespace nibble::cli
