#include "core/text/bytes_text.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(Bytes, HaveThreeFiguresAndADecimalUnit) {
  EXPECT_EQ(bytes_text(size_t{0}), "0 B");
  EXPECT_EQ(bytes_text(size_t{999}), "999 B");
  EXPECT_EQ(bytes_text(size_t{1000}), "1.00 kB");
  EXPECT_EQ(bytes_text(size_t{13228608}), "13.2 MB");
  EXPECT_EQ(bytes_text(size_t{999'600'000}), "1.00 GB");  // not 1000 MB
  EXPECT_EQ(bytes_text(size_t{65'248'815'744}), "65.2 GB");
}

}  // namespace
}  // namespace nibble::cli
