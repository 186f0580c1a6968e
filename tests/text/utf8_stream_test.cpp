#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nibble {
namespace {

#define FFFD "\xEF\xBF\xBD"

std::string streamed(const std::vector<std::string>& parts) {
  Utf8Stream stream;
  std::string text;
  for (const std::string& part : parts) text += stream.push(part);
  return text + stream.finish();
}

TEST(Utf8Stream, HalfACharacterWaitsForItsOtherHalf) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_TRUE(stream.is_waiting());
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_TRUE(stream.is_waiting());
  EXPECT_EQ(stream.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_FALSE(stream.is_waiting());
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, WhatStillWaitsAtTheEndIsOneReplacement) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.finish(), FFFD);
  EXPECT_FALSE(stream.is_waiting());
  EXPECT_EQ(stream.push("\x80"), FFFD);  // in a new text, the old half character is forgotten
}

TEST(Utf8Stream, EachMaximalIllFormedPartBecomesOneReplacement) {
  // These are Table 3-8 of the Unicode Standard, and similar tables of section 3.9.
  EXPECT_EQ(streamed({"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"}), FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
  EXPECT_EQ(streamed({"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"}), FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
  EXPECT_EQ(streamed({"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"}), FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
  EXPECT_EQ(streamed({"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"}), FFFD FFFD FFFD FFFD "A");
}

TEST(Utf8Stream, AnyCutsGiveTheSameText) {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xE2\x82z\xFF\xF0\x9F\x98";
  const std::string whole = streamed({bytes});
  EXPECT_EQ(whole, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" FFFD "z" FFFD FFFD);
  for (uint32_t cuts = 0; cuts < 1u << (bytes.size() - 1); ++cuts) {
    std::vector<std::string> parts{""};
    for (size_t i = 0; i < bytes.size(); ++i) {
      parts.back() += bytes[i];
      if (cuts >> i & 1) parts.emplace_back();
    }
    ASSERT_EQ(streamed(parts), whole) << cuts;
  }
}

}  // namespace
}  // namespace nibble
