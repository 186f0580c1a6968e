#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;

TEST(BenchServe, ItsKeyIsNotInTheRecord) {
  CLI::App app{"", "nibble"};
  Settings settings;
  // `action` owns the variables that hold the values of the flags.
  const Action action = define_bench(*app.add_subcommand("bench"), settings);
  app.parse("bench serve http://a --api-key hush --clients 1,4");
  const std::string line = command_line(*app.get_subcommand("bench")->get_subcommand("serve"));
  EXPECT_EQ(line, "nibble bench serve http://a --api-key ... --clients 1,4");
}

TEST(BenchServe, BenchNeedsAModelOrServe) {
  CLI::App app{"", "nibble"};
  Settings settings;
  const Action action = define_bench(*app.add_subcommand("bench"), settings);
  app.parse("bench");
  EXPECT_THAT(error_of([&] { action(); }), HasSubstr("MODEL is required"));
}

}  // namespace
}  // namespace nibble::cli
