#include "cli/eval/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace nibble::cli {
namespace {

TEST(Logits, TheirSumIsTakenWithoutOverflow) {
  const std::vector<float> large{1000, 1000, -1000};
  EXPECT_NEAR(log_sum_exp(large), 1000 + std::log(2.0), 1e-12);
}

TEST(Logits, OfEqualOnesTheLowerIdIsTheLikeliest) {
  const std::vector<float> logits{1, 3, 2, 3};
  EXPECT_EQ(likeliest(logits), 1);
}

TEST(KlDivergence, OfEqualDistributionsIsZero) {
  const std::vector<float> logits{0.25f, -3, 7, 1e-3f};
  EXPECT_EQ(kl_divergence(logits, logits), 0);
  std::vector<float> shifted = logits;  // a shift of all logits does not change the distribution
  for (float& logit : shifted) logit += 4;
  EXPECT_NEAR(kl_divergence(logits, shifted), 0, 1e-6);  // 4 + 1e-3 is rounded by 2^-22
}

// p = (1/4, 3/4), q = (1/2, 1/2): 1/4 ln(1/2) + 3/4 ln(3/2) = 0.130812. In the other direction it is 1/2 ln 2
// + 1/2 ln(2/3) = 0.143841.
TEST(KlDivergence, IsTheFirstOnesMeanLogRatio) {
  const std::vector<float> p{0, std::log(3.0f)}, q{5, 5};
  EXPECT_NEAR(kl_divergence(p, q), 0.130812, 1e-6);
  EXPECT_NEAR(kl_divergence(q, p), 0.143841, 1e-6);
}

}  // namespace
}  // namespace nibble::cli
