#include "core/system/available_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>

namespace nibble {
namespace {

TEST(AvailableBytes, AreWhatTheKernelCallsAvailableNotWhatItCallsFree) {
  std::istringstream meminfo(
      "MemTotal:       125512344 kB\nMemFree:         4200000 kB\nMemAvailable:   101000000 kB\n");
  EXPECT_EQ(available_bytes(meminfo), size_t{101000000} << 10);
}

TEST(AvailableBytes, HaveNoLimitWhereTheKernelDoesNotTell) {
  std::istringstream meminfo("MemTotal:       125512344 kB\n");
  EXPECT_EQ(available_bytes(meminfo), SIZE_MAX);
}

TEST(AvailableBytes, AreSomeHere) { EXPECT_GT(available_bytes(), size_t{1} << 20); }

}  // namespace
}  // namespace nibble
