#include "text/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace nibble {
namespace {

TEST(Base64, HasTheDigitsOfTheStandard) {  // RFC 4648, section 10
  constexpr std::pair<const char*, const char*> kCases[]{
      {"f", "Zg=="},         {"fo", "Zm8="},         {"foo", "Zm9v"},         {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "+//+"}};
  for (const auto& [bytes, digits] : kCases) {
    EXPECT_EQ(encode_base64(bytes), digits);
    std::string decoded;
    EXPECT_TRUE(decode_base64(digits, decoded));
    EXPECT_EQ(decoded, bytes);
  }
  EXPECT_EQ(encode_base64(""), "");
}

}  // namespace
}  // namespace nibble
