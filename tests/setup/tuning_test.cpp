// Tests that a tuning is read back only for the machine that it was written for.
#include "setup/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TuningFile : public testing::Test {
 protected:
  TuningFile() { settings_.tuning = path_.string(); }
  ~TuningFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_) << text;
  }

  const std::filesystem::path folder_{std::filesystem::temp_directory_path() /
                                      fmt::format("nibble_tuning_{}", getpid())};
  const std::filesystem::path path_{folder_ / "tuning.json"};
  const Tuning some_{3, {16, 192, 24}}, other_{0, {48, 64, 0}};
  Settings settings_;
};

TEST_F(TuningFile, HoldsEachMachinesOwn) {
  write_tuning(path_, "a CPU, 4 cores", some_);
  write_tuning(path_, "a CPU, 8 cores", other_);
  EXPECT_EQ(read_tuning(settings_, "a CPU, 4 cores"), some_);
  EXPECT_EQ(read_tuning(settings_, "a CPU, 8 cores"), other_);
  EXPECT_EQ(read_tuning(settings_, "a CPU, 2 cores"), std::nullopt);
  write_tuning(path_, "a CPU, 4 cores", other_);
  EXPECT_EQ(read_tuning(settings_, "a CPU, 4 cores"), other_);
  EXPECT_EQ(read_tuning(settings_, "a CPU, 8 cores"), other_);
}

TEST_F(TuningFile, IsLookedForInTheCacheUnlessOneIsNamedOrNoneWanted) {
  EXPECT_EQ(tuning_path(settings_), path_);
  settings_.tuning = "off";
  EXPECT_EQ(tuning_path(settings_), "");
  write_tuning(path_, "a CPU", some_);
  EXPECT_EQ(read_tuning(settings_, "a CPU"), std::nullopt);

  settings_.tuning.reset();
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  EXPECT_EQ(tuning_path(settings_), folder_ / "nibble" / "tuning.json");
  EXPECT_EQ(read_tuning(settings_, "a CPU"), std::nullopt);  // not tuned yet
  write_tuning(tuning_path(settings_), "a CPU", some_);
  EXPECT_EQ(read_tuning(settings_, "a CPU"), some_);
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(TuningFile, IsRefusedWhereItWasNamedAndIsNotThere) {
  EXPECT_THAT(error_of([&] { read_tuning(settings_, "a CPU"); }),
              AllOf(HasSubstr(path_.string()), HasSubstr("no such file"), HasSubstr("nibble tune")));
}

TEST_F(TuningFile, IsRefusedWithWhatIsWrongInIt) {
  const auto error = [&](const std::string& text) {
    write(text);
    return error_of([&] { read_tuning(settings_, "a CPU"); });
  };
  for (const char* text : {"", "{", "[]", "3", "\"\xff\""})
    EXPECT_THAT(error(text), HasSubstr("delete it")) << text;
  const std::string rest{R"("large_panel_rows": 96, "tile_from_tokens": 8})"};
  for (const char* rows : {"8", "33", "208", "16.0", "\"32\"", "null", "-16", "1e99", "18446744073709551615"})
    EXPECT_THAT(
        error(fmt::format(R"({{"a CPU": {{"threads": 4, "panel_rows": {}, {}}})", rows, rest)),
        AllOf(HasSubstr("a CPU: panel_rows has to be"), HasSubstr("from 16 to 192, a multiple of 16")))
        << rows;
  for (const char* machine : {"3", "[]", "{}", "null", R"({"threads": 4})"})
    EXPECT_THAT(error(fmt::format(R"({{"a CPU": {}}})", machine)), HasSubstr("has to be")) << machine;
}

}  // namespace
}  // namespace nibble
