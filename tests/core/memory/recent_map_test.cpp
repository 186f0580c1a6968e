#include "core/memory/recent_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace nibble {
namespace {

TEST(RecentMap, MakesAValueOnceWhileItIsKept) {
  RecentMap<int, std::string> map(2);
  EXPECT_TRUE(map.get(7, "seven").second);
  const auto [value, is_new] = map.get(7, "another");
  EXPECT_EQ(value, "seven");
  EXPECT_FALSE(is_new);
}

TEST(RecentMap, DropsTheValueThatWasNotUsedForLongest) {
  RecentMap<int, int> map(2);
  map.get(1, 10);
  map.get(2, 20);
  map.get(1, 0);
  map.get(3, 30);  // drops 2, because 1 was used after 2
  EXPECT_EQ(map.size(), 2u);
  EXPECT_FALSE(map.get(1, 0).second);
  EXPECT_FALSE(map.get(3, 0).second);
  EXPECT_TRUE(map.get(2, 0).second);
}

TEST(RecentMap, DestroysWhatItDrops) {
  const auto shared = std::make_shared<int>(0);
  RecentMap<int, std::shared_ptr<int>> map(3);
  for (int key = 0; key < 100; ++key) map.get(key, shared);
  EXPECT_EQ(shared.use_count(), 4);
}

}  // namespace
}  // namespace nibble
