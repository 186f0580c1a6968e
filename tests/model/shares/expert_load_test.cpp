// Compares the expected loads of ranks with whole experts with simulated routing.
#include "model/shares/expert_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/numbers/random.h"
#include "model/ops.h"

namespace nibble {
namespace {

// Returns means over many steps: of the most experts hit on a rank, and of the most pairs on a rank.
ExpertLoad simulated_load(const std::vector<int>& experts_of_ranks, int experts_per_token, int num_tokens) {
  constexpr int kSteps{4000};
  std::vector<size_t> rank_of;
  for (size_t rank = 0; rank < experts_of_ranks.size(); ++rank)
    rank_of.insert(rank_of.end(), static_cast<size_t>(experts_of_ranks[rank]), rank);
  std::vector<size_t> order(rank_of.size());
  std::iota(order.begin(), order.end(), size_t{0});
  ExpertLoad sum;
  uint64_t draw = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<bool> is_hit(rank_of.size());
    std::vector<int> hit(experts_of_ranks.size()), pairs(experts_of_ranks.size());
    for (int token = 0; token < num_tokens; ++token)
      for (size_t k = 0; k < static_cast<size_t>(experts_per_token); ++k) {
        std::swap(order[k], order[k + random_bits(7, draw++) % (order.size() - k)]);
        const size_t expert = order[k], rank = rank_of[expert];
        hit[rank] += !is_hit[expert];
        is_hit[expert] = true;
        ++pairs[rank];
      }
    sum.hit += std::ranges::max(hit);
    sum.pairs += std::ranges::max(pairs);
  }
  return {sum.hit / kSteps, sum.pairs / kSteps};
}

// With 4,000 steps, the mean is uncertain by a few thousandths.
TEST(ExpertLoad, OfTheFullestRankIsThatOfRandomRouting) {
  const std::vector<int> two{64, 64}, four{32, 32, 32, 32}, eight(8, 16), small(4, 8), uneven{5, 4, 4};
  for (const auto& ranks : {two, four, eight, small, uneven})
    for (const int num_tokens : {1, 2, 8, 64, 200}) {
      const ExpertLoad found = largest_load(ranks, 4, num_tokens),
                       simulated = simulated_load(ranks, 4, num_tokens);
      EXPECT_NEAR(found.hit / simulated.hit, 1, 0.01) << ranks.size() << " ranks, " << num_tokens;
      // Ranks with 5, 4 and 4 experts are computed as if each had 5.
      const double most_off = num_tokens < 64 ? 0.03 : 0.01;
      if (ranks != uneven)
        EXPECT_NEAR(found.pairs / simulated.pairs, 1, most_off) << ranks.size() << " ranks, " << num_tokens;
      else
        EXPECT_GT(found.pairs, 0.97 * simulated.pairs) << num_tokens;
    }
}

TEST(ExpertLoad, OfOneRankIsThatOfAllExperts) {
  for (const int num_tokens : {1, 7, 64, 4096}) {
    const ExpertLoad one = largest_load(std::vector{32}, 4, num_tokens);
    EXPECT_NEAR(one.hit, expected_experts_hit(32, 4, num_tokens), 1e-6) << num_tokens;
    EXPECT_NEAR(one.pairs, 4 * num_tokens, 1e-6) << num_tokens;
  }
}

// One token chooses 4 experts on two ranks. The rank that has more of them has 2, 3 or 4, on average 2.74.
// The probabilities were derived by hand.
TEST(ExpertLoad, OfOneTokenIsWorkedOutByHand) {
  const auto choose = [](double n, int k) {
    double ways = 1;
    for (int i = 0; i < k; ++i) ways *= (n - i) / (i + 1);
    return ways;
  };
  const double all = choose(128, 4), two = choose(64, 2) * choose(64, 2) / all,
               three = 2 * choose(64, 3) * 64 / all, four = 2 * choose(64, 4) / all;
  EXPECT_NEAR(two + three + four, 1, 1e-12);
  EXPECT_NEAR(largest_load(std::vector{64, 64}, 4, 1).hit, 2 * two + 3 * three + 4 * four, 1e-9);
}

}  // namespace
}  // namespace nibble
