// Tests the numbers of groups of (token, expert) pairs (groups.h) by brute force.
#include "backend/cuda/pipeline/row_limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/kernel_table.h"

namespace nibble::cuda {
namespace {

// Returns the largest number of groups over all routings, if a group holds `size` (token, expert) pairs.
// Tries all distributions of num_tokens * experts_per_token pairs to experts in which no expert gets a token
// twice. most[p]: the most groups of p pairs on the experts so far; -1: impossible.
int most_groups_by_trying(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  std::vector<int> most(static_cast<size_t>(num_pairs) + 1, -1);
  most[0] = 0;
  for (int expert = 0; expert < num_experts; ++expert) {
    std::vector<int> next(most.size(), -1);
    for (int before = 0; before <= num_pairs; ++before) {
      if (most[static_cast<size_t>(before)] < 0) continue;
      int num_groups = 0;
      for (int pairs = 0; pairs <= std::min(num_tokens, num_pairs - before); ++pairs) {
        if (pairs % size == 1 || size == 1) num_groups += pairs > 0;  // this pair opens a group
        int& best = next[static_cast<size_t>(before + pairs)];
        best = std::max(best, most[static_cast<size_t>(before)] + num_groups);
      }
    }
    most = next;
  }
  return most.back();
}

// mma.m16n8k16 takes 8 columns. For more than 16 tokens, a CTA takes 64 columns.
int columns_of_a_pass(int num_tokens) { return num_tokens <= 16 ? 8 : 64; }

int max_groups_of(int num_tokens, int num_experts, int experts_per_token) {
  return max_num_groups(num_tokens, num_experts, experts_per_token, columns_of_a_pass(num_tokens));
}

TEST(CudaGroups, AreNeverMoreThanTheLaunchAndItsBuffersHaveRoomFor) {
  for (const int tokens : {1, 2, 3, 7, 8, 9, 15, 16, 17, 18, 63, 64, 65, 127, 128, 129})
    for (int experts = 1; experts <= 6; ++experts)
      for (int chosen = 1; chosen <= experts; ++chosen) {
        const int most = most_groups_by_trying(tokens, experts, chosen, columns_of_a_pass(tokens));
        ASSERT_GT(most, 0);
        EXPECT_GE(max_groups_of(tokens, experts, chosen), most)
            << tokens << " tokens, " << chosen << " of " << experts << " experts";
      }
}

// A launch has one row of CTAs for each possible group. CTAs without a group return immediately.
TEST(CudaGroups, AreLaunchedWithLittleWaste) {
  for (const int tokens : {1, 2, 8, 16, 17, 64, 100})
    for (int experts = 1; experts <= 6; ++experts)
      for (int chosen = 1; chosen <= experts; ++chosen) {
        const int most = most_groups_by_trying(tokens, experts, chosen, columns_of_a_pass(tokens));
        EXPECT_LE(max_groups_of(tokens, experts, chosen), most + chosen)
            << tokens << " tokens, " << chosen << " of " << experts << " experts";
      }
  EXPECT_EQ(max_groups_of(1, 128, 4), 4);  // gpt-oss decoding: one group per chosen expert
  // A rank with two experts also needs four: one group per pair. Groups of other ranks' experts stay empty.
  EXPECT_EQ(max_groups_of(1, 2, 4), 4);
}

// If a step is matched, each pair has a lane of a warp, and all pairs of an expert fit into one group.
TEST(CudaGroups, AreMatchedWhereAWarpHasALaneForEachPairAndAGroupHoldsAllOfAnExpert) {
  for (int tokens = 1; tokens <= 64; ++tokens)
    for (const int chosen : {1, 2, 4, 8})
      for (const int size : {8, 16, 64})
        if (are_matched(tokens, chosen, size, /*in_image=*/false)) {
          EXPECT_LE(tokens * chosen, 32);
          EXPECT_LE(tokens, size);
        }
  for (int tokens = 1; tokens <= 16; ++tokens) {
    EXPECT_EQ(are_matched(tokens, 4, 8, /*in_image=*/false), tokens <= 8) << tokens;
    EXPECT_FALSE(are_matched(tokens, 4, 8, /*in_image=*/true)) << tokens;
  }
}

TEST(CudaGroups, HaveBuffersForEveryStepUpToTheLargest) {
  for (const int max_tokens : {1, 8, 15, 16, 17, 18, 64, 100, 512})
    for (const int experts : {1, 4, 32, 128})
      for (const int chosen : {1, 4}) {
        if (chosen > experts) continue;
        Config config;
        config.num_experts = experts;
        config.experts_per_token = chosen;
        int most = 0, most_pairs = 0;
        for (const KernelRow& row : kernel_rows())
          for (int tokens = 1; tokens <= max_tokens; ++tokens) {
            if (row.operation != Operation::kRoute || !row.takes(tokens)) continue;
            const int groups = max_num_groups(tokens, experts, chosen, row.pass.columns);
            most = std::max(most, groups);
            most_pairs = std::max(most_pairs, groups * row.pass.columns);
          }
        const GroupRoom room = group_room(config, max_tokens, kernel_rows());
        EXPECT_EQ(room.num_groups, most) << max_tokens << " tokens, " << chosen << " of " << experts;
        EXPECT_EQ(room.num_pairs, most_pairs) << max_tokens << " tokens, " << chosen << " of " << experts;
      }
}

// A tuned plan may run 65 or more rows in groups of 8 pairs. The kernel table uses groups of this size only
// for fewer rows. So steps of a tuned plan may need more groups than steps of the table.
TEST(Groups, HaveRoomForTunedSteps) {
  const Config config = *named_config("gpt-oss-120b");
  const int few = 12;
  int columns = 0;
  for (const KernelRow& row : kernel_rows())
    if (row.operation == Operation::kRoute && row.takes(few)) columns = std::max(columns, row.pass.columns);
  const GroupRoom room =
      group_room(config, 2048, kernel_rows(), std::vector<TunedSteps>{{65, 2000, few, few}});
  EXPECT_GE(room.num_groups, max_num_groups(2000, config.num_experts, config.experts_per_token, columns));
  EXPECT_GT(room.num_groups, group_room(config, 2048, kernel_rows()).num_groups);
}

}  // namespace
}  // namespace nibble::cuda
