#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench_serve/load.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int count_of(const char* text, const BenchLoad& load) {
  return count_for(load, read_request_count(text, "--requests", 1), "--requests");
}

TEST(RequestCount, IsANumberOrAMultipleOfTheClients) {
  EXPECT_EQ(count_of("300", {.num_clients = 16}), 300);
  EXPECT_EQ(count_of("10x", {.num_clients = 16}), 160);
  EXPECT_EQ(count_of("300", {.rate = 2}), 300);
  EXPECT_EQ(count_of("16777216x", {.num_clients = 16}), kMostRequests);
  EXPECT_THAT(error_of([&] { count_of("10x", {.rate = 2}); }),
              AllOf(HasSubstr("--requests 10x"), HasSubstr("--clients")));
}

TEST(RequestCount, OtherTextIsRefused) {
  for (const char* text : {"", "x", "0", "0x", "-1", "1.5x", "10X", "10 x", "16777217"})
    EXPECT_THAT(error_of([&] { read_request_count(text, "--requests", 1); }),
                AllOf(HasSubstr(std::string("--requests '") + text + "'"), HasSubstr("10x")))
        << text;
  EXPECT_EQ(read_request_count("0", "--warmup", 0).number, 0);
}

TEST(BenchLoad, HasAName) {
  EXPECT_EQ(name(BenchLoad{.num_clients = 1}), "1 client");
  EXPECT_EQ(name(BenchLoad{.num_clients = 16}), "16 clients");
  EXPECT_EQ(name(BenchLoad{.rate = 2.5}), "2.5 /s");
  EXPECT_EQ(name(BenchLoad{}), "trace");
}

}  // namespace
}  // namespace nibble::cli
