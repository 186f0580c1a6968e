#include "cli/predict/predicted_test.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

StepPrediction step_of(std::vector<PredictedTime> operations) { return {{}, std::move(operations)}; }

TEST(Predict, IsTheMeanOverTheStepsOfATest) {
  const std::vector<StepPrediction> steps{
      step_of({{Operation::kQkv, 36, 100, 8, 2, 1, 2}}),
      step_of({{Operation::kQkv, 36, 200, 16, 2, 1, 4}, {Operation::kUnembed, 1, 50, 5, 0, 0, 1}})};
  const PredictedTest mean = mean_of({BenchKind::kPrefill, 60, 0}, steps);
  ASSERT_EQ(mean.operations.size(), 2u);
  EXPECT_EQ(mean.operations[0].num_launches, 36);
  EXPECT_EQ(mean.operations[1].num_launches, 1);  // occurs in only one of the two steps
  EXPECT_DOUBLE_EQ(mean.microseconds(), (10 + 20 + 6) / 2.0);
  EXPECT_EQ(mean.bytes(), (100u + 200 + 50) / 2);
  EXPECT_DOUBLE_EQ(mean.tokens_per_second(), 60 / 36e-6);
}

TEST(Predict, SequencesDecodeTogether) {
  const std::vector<StepPrediction> steps{step_of({{Operation::kQkv, 36, 100, 8, 2, 1, 2}})};
  const PredictedTest test = mean_of({BenchKind::kDecode, 1, 64}, steps, 8);
  EXPECT_DOUBLE_EQ(test.tokens_per_second(), 8 / 10e-6);
  EXPECT_EQ(name(test), "tg1 @ d64 x 8");
  EXPECT_EQ(name(mean_of({BenchKind::kDecode, 1, 64}, steps)), "tg1 @ d64");
}

// One step is bound by instructions, the other by memory. So the two steps together take longer than the
// instructions of both, and longer than the memory accesses of both.
TEST(Predict, TotalsAddUpWhereStepsAreBoundDifferently) {
  const std::vector<StepPrediction> steps{step_of({{Operation::kAttend, 36, 10, 10, 1, 0, 0}}),
                                          step_of({{Operation::kAttend, 36, 10, 1, 10, 0, 0}})};
  EXPECT_DOUBLE_EQ(mean_of({BenchKind::kDecode, 2, 0}, steps).microseconds(), 10);
}

}  // namespace
}  // namespace nibble::cli
