#include "server/http/gzip.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble::server {
namespace {

TEST(Gzip, HasTheHeaderTheSumAndTheLengthOfItsText) {
  const std::string text(10'000, 'x');
  const std::string packed = gzipped(text);
  EXPECT_EQ(packed.substr(0, 4), std::string("\x1f\x8b\x08\0", 4));
  EXPECT_LT(packed.size(), 200u);
  EXPECT_EQ(packed.substr(packed.size() - 4), std::string("\x10\x27\0\0", 4));
  // The CRC-32 of the empty text is 0. The CRC-32 of "123456789" is 0xcbf43926, the standard's check value.
  EXPECT_EQ(gzipped("").substr(gzipped("").size() - 8), std::string(8, '\0'));
  const std::string digits = gzipped("123456789");
  EXPECT_EQ(digits.substr(digits.size() - 8, 4), "\x26\x39\xf4\xcb");
}

}  // namespace
}  // namespace nibble::server
