#include "core/numbers/random.h"

#include <gtest/gtest.h>

#include <set>

namespace nibble {
namespace {

TEST(Random, IsTheGeneratorOfThePaper) {
  // The first three outputs of SplitMix64 from state 0. SplitMix64 adds the increment to its state before
  // each output. mix64() includes this addition, so its arguments are the states before it: 0, 1 and 2
  // increments.
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15u), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(mix64(2 * 0x9E3779B97F4A7C15u), 0x06C45D188009454Fu);
}

TEST(Random, NumbersAreUniformInTheUnitInterval) {
  constexpr int kNumDraws{100'000}, kNumBins{10};
  int bins[kNumBins] = {};
  for (uint64_t i = 0; i < kNumDraws; ++i) {
    const double x = random_unit(7, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ++bins[static_cast<int>(x * kNumBins)];
  }
  // The count of a bin has mean 10,000 and standard deviation sqrt(100,000 * 0.1 * 0.9) = 95. The draws are
  // the same in every run.
  for (const int count : bins) EXPECT_NEAR(count, kNumDraws / kNumBins, 5 * 95);
}

TEST(Random, SeedsAndCountersDoNotCollide) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (uint64_t counter = 0; counter < 100; ++counter) seen.insert(random_bits(seed, counter));
  EXPECT_EQ(seen.size(), 10'000u);
}

}  // namespace
}  // namespace nibble
