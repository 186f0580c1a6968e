#include "server/api/response_store.h"

#include <gtest/gtest.h>

namespace nibble::server {
namespace {

StoredResponse conversation(size_t num_bytes) {
  StoredResponse response;
  response.messages.emplace_back().text.assign(num_bytes, 'x');
  return response;
}

TEST(ResponseStore, ForgetsWhatWasUsedLongestAgoAndKeepsItsBound) {
  ResponseStore store(10'000);
  store.put({"", "a"}, conversation(3200));
  store.put({"", "b"}, conversation(3200));
  ASSERT_TRUE(store.find({"", "a"}));
  store.put({"", "c"}, conversation(3200));
  EXPECT_TRUE(store.find({"", "a"}));
  EXPECT_FALSE(store.find({"", "b"}));
  EXPECT_EQ(store.find({"", "c"})->messages.at(0).text.size(), 3200u);
  for (int i = 0; i < 1000; ++i) {
    store.put({"", std::to_string(i % 700)}, conversation(static_cast<size_t>(i * 37 % 9000)));
    ASSERT_LE(store.num_bytes(), 10'000u);
  }
}

TEST(ResponseStore, AResponseLargerThanTheStoreEvictsNoOther) {
  ResponseStore store(10'000);
  store.put({"", "a"}, conversation(3300));
  store.put({"", "b"}, conversation(10'000));
  EXPECT_TRUE(store.find({"", "a"}));
  EXPECT_FALSE(store.find({"", "b"}));
}

TEST(ResponseStore, ItemsAreFoundAsLongAsTheirResponseIs) {
  ResponseStore store(10'000);
  StoredResponse one = conversation(10), other = conversation(10);
  one.input = {{"in", "1"}, {"twice", "2"}};
  one.output = {{"out", "3"}};
  other.input = {{"twice", "4"}};
  store.put({"", "a"}, one);
  store.put({"", "b"}, other);
  EXPECT_EQ(*store.find_item({"", "in"}), "1");
  EXPECT_EQ(*store.find_item({"", "out"}), "3");
  EXPECT_TRUE(store.erase({"", "a"}));
  EXPECT_FALSE(store.find_item({"", "in"}));
  EXPECT_EQ(*store.find_item({"", "twice"}), "4");
  EXPECT_FALSE(store.erase({"", "a"}));
  EXPECT_TRUE(store.erase({"", "b"}));
  EXPECT_EQ(store.num_bytes(), 0u);
}

TEST(ResponseStore, WhatOneOwnerStoresNoOtherFinds) {
  ResponseStore store(10'000);
  StoredResponse alices = conversation(10), bobs = conversation(20);
  alices.input = {{"item", "alice's"}};
  bobs.input = {{"item", "bob's"}};  // clients choose the ids of items, so ids of two clients may be equal
  store.put({"alice", "a"}, alices);
  store.put({"bob", "b"}, bobs);
  EXPECT_TRUE(store.find({"alice", "a"}));
  EXPECT_FALSE(store.find({"bob", "a"}));
  EXPECT_FALSE(store.find({"", "a"}));
  EXPECT_EQ(*store.find_item({"alice", "item"}), "alice's");
  EXPECT_EQ(*store.find_item({"bob", "item"}), "bob's");
  EXPECT_FALSE(store.find_item({"", "item"}));
  EXPECT_FALSE(store.erase({"bob", "a"}));
  EXPECT_TRUE(store.erase({"alice", "a"}));
  EXPECT_TRUE(store.find({"bob", "b"}));
  EXPECT_EQ(*store.find_item({"bob", "item"}), "bob's");
}

}  // namespace
}  // namespace nibble::server
