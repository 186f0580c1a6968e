#include "server/api/response_store.h"

#include <gtest/gtest.h>

namespace nibble::server {
namespace {

std::vector<harmony::ChatMessage> conversation(size_t num_bytes) {
  std::vector<harmony::ChatMessage> messages(1);
  messages[0].text.assign(num_bytes, 'x');
  return messages;
}

TEST(ResponseStore, ForgetsWhatWasUsedLongestAgoAndKeepsItsBound) {
  ResponseStore store(10'000);
  store.put("a", conversation(3300));
  store.put("b", conversation(3300));
  ASSERT_TRUE(store.find("a"));
  store.put("c", conversation(3300));
  EXPECT_TRUE(store.find("a"));
  EXPECT_FALSE(store.find("b"));
  EXPECT_EQ(store.find("c")->at(0).text.size(), 3300u);
  for (int i = 0; i < 1000; ++i) {
    store.put(std::to_string(i), conversation(static_cast<size_t>(i * 37 % 9000)));
    ASSERT_LE(store.num_bytes(), 10'000u);
  }
}

TEST(ResponseStore, WhatIsLargerThanAllDrivesNobodyOut) {
  ResponseStore store(10'000);
  store.put("a", conversation(3300));
  store.put("b", conversation(10'000));
  EXPECT_TRUE(store.find("a"));
  EXPECT_FALSE(store.find("b"));
}

}  // namespace
}  // namespace nibble::server
