#include "cli/profile/kernel_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns the work of two layers. The second qkv begins before `down` has ended.
std::vector<TimedWork> two_layers(double longer = 0) {
  return {{Operation::kEmbed, "embed", 0, 1},
          {Operation::kQkv, "qkv", 1, 3},
          {Operation::kQkv, "qkv join", 3, 3.5},
          {Operation::kExpertsUp, "up", 4, 8},
          {Operation::kExpertsDown, "down", 8, 10},
          {Operation::kQkv, "qkv", 9, 13 + longer},
          {Operation::kQkv, "qkv join", 13 + longer, 13.5 + longer},
          {Operation::kExpertsUp, "up", 14 + longer, 18 + longer},
          {Operation::kExpertsDown, "down", 18 + longer, 20 + longer},
          {Operation::kQkv, "qkv", 20 + longer, 23 + longer, /*is_draft=*/true}};
}
const std::vector<OperationCost> kCosts{{Operation::kEmbed, {.weight_bytes = 3}},
                                        {Operation::kRmsNorm, {.weight_bytes = 4}},
                                        {Operation::kQkv, {.weight_bytes = 100, .flops = 5000}},
                                        {Operation::kProject, {.weight_bytes = 50}},
                                        {Operation::kExpertsUp, {.weight_bytes = 200}},
                                        {Operation::kExpertsDown, {.weight_bytes = 100}},
                                        {Operation::kUnembed, {.weight_bytes = 9}}};

std::vector<KernelTime> times_of(const std::vector<std::vector<TimedWork>>& repetitions) {
  return kernel_times(repetitions, kCosts);
}

TEST(KernelTimes, KernelsComeInTheOrderOfTheirFirstLaunchesAndADraftHeadsAreApart) {
  std::vector<std::string> names;
  for (const KernelTime& kernel : times_of({two_layers()}))
    names.push_back(std::string(kernel.part) + ": " + std::string(kernel.kernel));
  EXPECT_THAT(names, testing::ElementsAre("norms and routing: embed", "dense: qkv", "dense: qkv join",
                                          "experts: up", "experts: down", "draft head: qkv"));
}

TEST(KernelTimes, LaunchesAreCountedOnceAndTheirTimesAddUpWithoutOverlap) {
  const std::vector<KernelTime> kernels = times_of({two_layers(), two_layers(), two_layers()});
  EXPECT_EQ(kernels[1].num_launches, 2);
  EXPECT_DOUBLE_EQ(kernels[1].microseconds, 2 + 3);  // 1 us of the second launch overlaps `down`
  EXPECT_DOUBLE_EQ(kernels[3].microseconds, 8);
  EXPECT_DOUBLE_EQ(kernels[5].microseconds, 3);
}

TEST(KernelTimes, TheNinetyNinthPercentileIsOneOfRareLaunchesAndTheMedianIsNot) {
  std::vector<std::vector<TimedWork>> repetitions(49, two_layers());
  repetitions.push_back(two_layers(/*longer=*/7));  // one of 100 launches is longer
  EXPECT_DOUBLE_EQ(times_of(repetitions)[1].launch_p99, 3);
  repetitions.push_back(two_layers(/*longer=*/7));  // two of 102 are longer
  const KernelTime qkv = times_of(repetitions)[1];
  EXPECT_DOUBLE_EQ(qkv.launch_p99, 10);
  EXPECT_DOUBLE_EQ(qkv.launch_median, 2.5);  // launches take 2 or 3 us
  EXPECT_DOUBLE_EQ(qkv.microseconds, 5);     // in the median step
}

TEST(KernelTimes, EveryByteOfAPartThatRanIsCountedForOneOfItsKernels) {
  const std::vector<KernelTime> kernels = times_of({two_layers()});
  EXPECT_EQ(kernels[0].bytes, 3u + 4u);  // rms_norm has no kernel here, so embed counts its bytes
  // qkv is the longest kernel of its part, so it also counts the bytes of project, which has no kernel
  EXPECT_EQ(kernels[1].bytes, 100u + 50u);
  EXPECT_EQ(kernels[1].flops, 5000u);
  EXPECT_EQ(kernels[2].bytes, 0u);
  EXPECT_EQ(kernels[3].bytes, 200u);
  EXPECT_EQ(kernels[4].bytes, 100u);
  EXPECT_EQ(kernels[5].bytes, 0u);  // the costs do not include the weights of a draft head
}

TEST(KernelTimes, TheTableHasSharesOfTheStepAndOfTheBandwidth) {
  const std::string table = kernel_table(times_of({two_layers()}), /*read_bandwidth=*/50e6, /*step=*/23);
  EXPECT_THAT(table,
              HasSubstr("| up                   | experts              |       8.0 |  34.8 % |        2 |"
                        "     4.00 |     4.00 |      200 B |     0.0 | 50.0 % |"));
  EXPECT_THAT(table,
              HasSubstr("| qkv join             | dense                |       1.0 |   4.3 % |        2 |"
                        "     0.50 |     0.50 |          - |"));
}

TEST(KernelTimes, TheHalvesOfTheExpertsAreComparedByTimeAndBytes) {
  EXPECT_THAT(
      kernel_table(times_of({two_layers()}), 1e9, 23),
      HasSubstr("- experts up takes 2.00 times the time of experts down, for 2.00 times the bytes\n"));
  std::vector<TimedWork> fused{{Operation::kExpertsUp, "experts", 0, 6}};
  EXPECT_THAT(kernel_table(times_of({fused}), 1e9, 6), Not(HasSubstr("experts up takes")));
  EXPECT_EQ(times_of({fused})[0].bytes, 300u);
}

}  // namespace
}  // namespace nibble::cli
