#include "core/memory/read_bandwidth.h"

#include <gtest/gtest.h>

#include <cstring>

namespace nibble {
namespace {

TEST(ReadBandwidth, APassHasASpeedOnAnyNumberOfThreads) {
  Buffer bytes(size_t{5} << 20);
  std::memset(bytes.data(), 1, bytes.bytes());
  for (const int num_threads : {1, 3}) {
    ThreadPool pool(num_threads);
    EXPECT_GT(read_pass(pool, bytes), 1e6);
    EXPECT_GT(read_bandwidth(pool, bytes), 1e6);
  }
}

}  // namespace
}  // namespace nibble
