#include "core/text/number_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "tests/error_of.h"

namespace nibble {
namespace {

TEST(NumberList, HoldsNumbersWithCommasBetweenThem) {
  EXPECT_THAT(read_numbers("512,0,2048", "-p", 0, 4096), testing::ElementsAre(512, 0, 2048));
  EXPECT_THAT(read_numbers("7", "-p", 7, 7), testing::ElementsAre(7));
}

TEST(NumberList, ItemsThatAreNoNumberOfTheRangeAreRefused) {
  for (const std::string_view list : {"", ",", "1,", ",1", "1,,2", "1 ,2", "x", "1,-1", "1,11", "1.5"})
    EXPECT_EQ(error_of([&] { read_numbers(list, "--gpus", 0, 10, "numbers of GPUs"); }),
              fmt::format("--gpus '{}': expected numbers of GPUs from 0 to 10, separated by commas", list));
}

}  // namespace
}  // namespace nibble
