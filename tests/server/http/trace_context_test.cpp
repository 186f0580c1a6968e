#include "server/http/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble::server {
namespace {

const std::string kTrace{"4bf92f3577b34da6a3ce929d0e0e4736"}, kParent{"00f067aa0ba902b7"};

TEST(TraceContext, TakesWhatTheStandardHas) {
  EXPECT_TRUE(is_traceparent("00-" + kTrace + "-" + kParent + "-01"));
  EXPECT_TRUE(is_traceparent("00-" + kTrace + "-" + kParent + "-00"));
  EXPECT_TRUE(is_traceparent("cc-" + kTrace + "-" + kParent + "-01"));
  EXPECT_TRUE(is_traceparent("cc-" + kTrace + "-" + kParent + "-01-what-the-future-will-be"));
}

TEST(TraceContext, RefusesTheRest) {
  const std::string good = "00-" + kTrace + "-" + kParent + "-01";
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(is_traceparent(good.substr(0, length))) << length;
  for (size_t place = 0; place < good.size(); ++place)
    for (const char letter : {'g', 'A', ' ', '\n', '\0'}) {
      std::string wrong = good;
      wrong[place] = letter;
      EXPECT_FALSE(is_traceparent(wrong)) << wrong;
    }
  for (const std::string& wrong :
       {"ff-" + kTrace + "-" + kParent + "-01", "00-" + std::string(32, '0') + "-" + kParent + "-01",
        "00-" + kTrace + "-" + std::string(16, '0') + "-01", good + "-more", good + " ", good + "," + good,
        "cc-" + kTrace + "-" + kParent + "-01.", "cc-" + kTrace + "-" + kParent + "-01-a\r\nb",
        "cc-" + kTrace + "-" + kParent + "-01-" + std::string(300, 'a')})
    EXPECT_FALSE(is_traceparent(wrong)) << wrong;
}

}  // namespace
}  // namespace nibble::server
