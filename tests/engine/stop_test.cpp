// Tests stop strings on a growing text: only text that may be part of a stop string is held back.
#include "engine/stop.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/stop_oracle.h"

namespace nibble {
namespace {

using Strings = std::vector<std::string>;

TEST(StopStrings, WithoutAnyLetEverythingThrough) {
  StopStrings stop(Strings{});
  EXPECT_EQ(stop.push("anything"), "anything");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, EndTheTextBeforeThem) {
  StopStrings stop(Strings{"END"});
  EXPECT_EQ(stop.push("one END two"), "one ");
  EXPECT_TRUE(stop.has_stopped());
  EXPECT_EQ(stop.push("three"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, AreFoundAcrossPieces) {
  StopStrings stop(Strings{"\n\nQ:"});
  EXPECT_EQ(stop.push("a\n"), "a");
  EXPECT_EQ(stop.push("\n"), "");
  EXPECT_EQ(stop.push("Q"), "");
  EXPECT_FALSE(stop.has_stopped());
  EXPECT_EQ(stop.push(":b"), "");
  EXPECT_TRUE(stop.has_stopped());
}

TEST(StopStrings, HoldBackOnlyWhatCanStillBecomeOne) {
  StopStrings stop(Strings{"abab!"});
  EXPECT_EQ(stop.push("xaba"), "x");
  EXPECT_EQ(stop.push("ba"), "ab");  // the last "aba" of "ababa" may continue to "abab!"
  EXPECT_EQ(stop.push("c"), "abac");
  EXPECT_EQ(stop.push("ab"), "");
  EXPECT_EQ(stop.flush(), "ab");
}

TEST(StopStrings, DoNotReachAcrossAFlush) {
  StopStrings stop(Strings{"ab"});
  EXPECT_EQ(stop.push("a"), "");
  EXPECT_EQ(stop.flush(), "a");
  EXPECT_EQ(stop.push("b"), "b");
  EXPECT_FALSE(stop.has_stopped());
}

TEST(StopStrings, TheOneThatIsCompleteFirstWinsAndThenTheLongest) {
  EXPECT_EQ(StopStrings(Strings{"abcd", "bc"}).push("xabcd"), "xa");  // "bc" is complete before "abcd"
  EXPECT_EQ(StopStrings(Strings{"c", "abc", "bc"}).push("xabcd"), "x");
}

TEST(StopStrings, AreFoundInsideTheirOwnBeginnings) {
  EXPECT_EQ(StopStrings(Strings{"aab"}).push("aaab"), "a");
  EXPECT_EQ(StopStrings(Strings{"abcabd"}).push("abcabcabd"), "abc");
}

TEST(StopStrings, CutBetweenCharacters) {
  StopStrings stop(Strings{"é"});  // C3 A9
  EXPECT_EQ(stop.push("caf"), "caf");
  EXPECT_EQ(stop.push("è"), "è");  // C3 A8: the same first byte
  EXPECT_EQ(stop.push("é!"), "");
  EXPECT_TRUE(stop.has_stopped());
}

// Splits random texts of two letters into random pieces. With two letters, stop strings overlap often.
TEST(StopStrings, GiveWhatSearchingTheWholeTextGives) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const auto word = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + below(2));
    return text;
  };
  int num_stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    Strings strings;
    for (size_t n = below(4); n > 0; --n) strings.push_back(word(1 + below(8)));
    const std::string text = word(below(30));
    StopStrings stop(strings);
    std::string streamed;
    for (size_t at = 0; at < text.size() && !stop.has_stopped();) {
      const size_t num_bytes = 1 + below(5);
      streamed += stop.push(text.substr(at, num_bytes));
      at = std::min(text.size(), at + num_bytes);
      if (!stop.has_stopped()) {
        const std::string_view so_far = std::string_view(text).substr(0, at);
        ASSERT_EQ(streamed.size(), at - num_uncertain(so_far, strings)) << text << " at " << at;
      }
    }
    streamed += stop.flush();
    const StoppedText whole = cut_at_stop(text, strings);
    ASSERT_EQ(streamed, whole.text) << text;
    ASSERT_EQ(stop.has_stopped(), whole.has_stopped) << text;
    num_stopped += whole.has_stopped;
  }
  EXPECT_GT(num_stopped, 5000);
  EXPECT_LT(num_stopped, 15000);
}

}  // namespace
}  // namespace nibble
