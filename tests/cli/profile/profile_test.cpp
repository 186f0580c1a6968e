#include "cli/profile/profile.h"
#include "core/text/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nibble::cli {
namespace {

const std::vector<TimedWork> kStep{{Operation::kQkv, "qkv", 0, 10},
                                   {Operation::kAttend, "attend", 11, 15},
                                   // overlaps attend: its first CTA began before attend ended
                                   {Operation::kProject, "project", 14, 20},
                                   {Operation::kUnembed, "unembed", 23, 30}};
const StepBytes kBytes{{{Operation::kQkv, {.weight_bytes = 100, .flops = 3000}},
                        {Operation::kProject, {.weight_bytes = 50, .flops = 500}},
                        {Operation::kUnembed, {.weight_bytes = 7}}},
                       9};

const PartTime& find(const std::vector<PartTime>& parts, std::string_view name) {
  return *std::find_if(parts.begin(), parts.end(), [&](const PartTime& part) { return part.part == name; });
}

TEST(Profile, AddsUpToTheStepEvenWhereWorkOverlaps) {
  const std::vector<std::vector<TimedWork>> steps{kStep};
  double sum = 0;
  for (const PartTime& part : part_times(steps, kBytes)) sum += part.microseconds;
  EXPECT_DOUBLE_EQ(sum, 30);
}

TEST(Profile, GivesEachPartItsTimeLaunchesAndBytes) {
  const std::vector<std::vector<TimedWork>> steps{kStep};
  const std::vector<PartTime> parts = part_times(steps, kBytes);
  EXPECT_DOUBLE_EQ(find(parts, "dense").microseconds, 10 + 5);
  EXPECT_EQ(find(parts, "dense").num_launches, 2);
  EXPECT_EQ(find(parts, "dense").bytes, 150u);
  EXPECT_EQ(find(parts, "dense").flops, 3500u);
  EXPECT_EQ(find(parts, "lm_head and sampling").flops, 0u);
  EXPECT_DOUBLE_EQ(find(parts, "attention").microseconds, 4);
  EXPECT_EQ(find(parts, "lm_head and sampling").bytes, 7u);
  EXPECT_DOUBLE_EQ(find(parts, "gaps").microseconds, 1 + 3);
  EXPECT_EQ(find(parts, "experts").num_launches, 0);
}

TEST(Profile, CountsTheWorkOfADraftHeadSeparately) {
  std::vector<std::vector<TimedWork>> steps{kStep};
  EXPECT_EQ(part_times(steps, kBytes).size(), 6u);
  steps[0].push_back({Operation::kQkv, "qkv", 31, 33, /*is_draft=*/true});
  const std::vector<PartTime> parts = part_times(steps, kBytes);
  EXPECT_DOUBLE_EQ(find(parts, "dense").microseconds, 10 + 5);
  EXPECT_DOUBLE_EQ(find(parts, "draft head").microseconds, 2);
  EXPECT_EQ(find(parts, "draft head").bytes, 9u);
}

TEST(Profile, TakesTheMedianOfRepetitions) {
  std::vector<std::vector<TimedWork>> steps(3, kStep);
  steps[1][0].end = 10.5;
  steps[2].back().end = 1000;
  EXPECT_DOUBLE_EQ(find(part_times(steps, kBytes), "lm_head and sampling").microseconds, 7);
}

TEST(Profile, SaysHowFarRepetitionsLieApart) {
  std::vector<std::vector<TimedWork>> steps(2, kStep);
  steps[1][0].end = 10.5;
  EXPECT_DOUBLE_EQ(find(part_times(steps, kBytes), "dense").deviation, 0.5 / std::sqrt(2));
  EXPECT_EQ(find(part_times(steps, kBytes), "lm_head and sampling").deviation, 0);
}

TEST(Profile, AShareOverAHundredPerCentIsFlaggedUnlessTheStepFitsIntoTheCaches) {
  const std::vector<std::vector<TimedWork>> steps{kStep};
  const std::vector<PartTime> parts = part_times(steps, kBytes);  // dense work: 150 bytes in 15 us, 10 MB/s
  const auto flagged = [&](double bandwidth, std::optional<size_t> cache_bytes) {
    return contradictions(parts, bandwidth, reuse_of(parts, cache_bytes));
  };
  ASSERT_EQ(flagged(8e6, 156).size(), 1u);
  EXPECT_TRUE(flagged(8e6, 156)[0].starts_with("dense reached 125 % of the read bandwidth, "));
  EXPECT_EQ(flagged(8e6, std::nullopt).size(), 1u);
  EXPECT_TRUE(flagged(8e6, 157).empty());  // exactly the number of bytes that the step reads
  EXPECT_TRUE(flagged(11e6, 156).empty());
}

TEST(Profile, WritesATraceWithAnEventForEachPieceOfWork) {
  const auto trace = nlohmann::json::parse(chrome_trace(kStep));
  ASSERT_EQ(trace["traceEvents"].size(), 4u);
  EXPECT_EQ(trace["traceEvents"][1]["name"], "attend");
  EXPECT_EQ(trace["traceEvents"][1]["ts"], 11.0);
  EXPECT_EQ(trace["traceEvents"][1]["dur"], 4.0);
}

}  // namespace
}  // namespace nibble::cli
