#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cli/bench_serve/rate_search.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;

// Searches with a simulated server that keeps the SLO up to `most` requests per second.
RateBounds search_for(double most, std::vector<double>* tried = nullptr) {
  return highest_rate([&](double rate) {
    if (tried) tried->push_back(rate);
    return rate <= most;
  });
}

TEST(RateSearch, FindsTheRateWithinAFewPerCent) {
  for (const double most : {0.02, 0.3, 1.0, 7.7, 100.0, 4000.0}) {
    const RateBounds bounds = search_for(most);
    ASSERT_TRUE(bounds.holds && bounds.fails) << most;
    EXPECT_LE(*bounds.holds, most);
    EXPECT_GT(*bounds.fails, most);
    EXPECT_LE(*bounds.fails, 1.05 * *bounds.holds);
  }
}

TEST(RateSearch, DoublesUntilOneFailsThenHalvesTheInterval) {
  std::vector<double> tried;
  search_for(3, &tried);
  ASSERT_GE(tried.size(), 4u);
  tried.resize(4);
  EXPECT_THAT(tried, ElementsAre(1, 2, 4, std::sqrt(8)));
  tried.clear();
  search_for(0.3, &tried);
  tried.resize(3);
  EXPECT_THAT(tried, ElementsAre(1, 0.5, 0.25));
}

TEST(RateSearch, EndsWhereAllRatesHoldOrNone) {
  const RateBounds all = search_for(1e9), none = search_for(0);
  EXPECT_EQ(all.holds, 4096);
  EXPECT_FALSE(all.fails);
  EXPECT_FALSE(none.holds);
  EXPECT_EQ(none.fails, 1.0 / 64);
}

}  // namespace
}  // namespace nibble::cli
