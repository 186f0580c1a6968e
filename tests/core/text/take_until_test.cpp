#include "core/text/take_until.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(TakeUntil, GivesThePartsOneByOneWithoutWhatSeparatesThem) {
  std::string_view text = "qkv,,o,";
  EXPECT_EQ(take_until(text, ','), "qkv");
  EXPECT_EQ(take_until(text, ','), "");
  EXPECT_EQ(take_until(text, ','), "o");
  EXPECT_EQ(text, "");  // no empty part follows a separator at the end
}

TEST(TakeUntil, TakesAllWhereThereIsNoSeparator) {
  std::string_view text = "qkv";
  EXPECT_EQ(take_until(text, '='), "qkv");
  EXPECT_EQ(text, "");
  EXPECT_EQ(take_until(text, '='), "");
}

}  // namespace
}  // namespace nibble
