#include "core/text/near_name.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(NearName, OneSlipInThreeLettersIsForgiven) {
  const std::vector<std::string> names{"run", "chat", "serve", "temperature", "top-k"};
  EXPECT_EQ(near_name("rum", names), "run");
  EXPECT_EQ(near_name("rnu", names), "run");  // two letters swapped are one slip
  EXPECT_EQ(near_name("temprature", names), "temperature");
  EXPECT_EQ(near_name("topk", names), "top-k");
  EXPECT_EQ(near_name("sevre", names), "serve");
  EXPECT_EQ(near_name("chat", names), "chat");
}

TEST(NearName, AWordThatIsLikeNoneIsNotGuessed) {
  const std::vector<std::string> names{"run", "chat", "serve", "temperature"};
  EXPECT_EQ(near_name("convert", names), std::nullopt);
  EXPECT_EQ(near_name("rmm", names), std::nullopt);
  EXPECT_EQ(near_name("ru", names), std::nullopt);  // two letters are too few for a suggestion
  EXPECT_EQ(near_name("", names), std::nullopt);
  EXPECT_EQ(near_name("x", {}), std::nullopt);
}

TEST(NearName, TheNearestOfSeveralIsGuessed) {
  EXPECT_EQ(near_name("max-tokens", {"max-tokenss", "max-tokens", "min-tokens"}), "max-tokens");
  EXPECT_EQ(guess("max-token", {"min-tokens", "max-tokens"}, "--"), ": did you mean --max-tokens?");
  EXPECT_EQ(guess("seed", {"max-tokens"}), ".");
}

}  // namespace
}  // namespace nibble
