// Tests that a tuning is only used by the build, on the machine and for the model with which it was measured.
#include "setup/machine/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "setup/settings/resolved_settings.h"
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
  const TunedMachine four_{"a CPU, 4 cores", "nibble 1"}, eight_{"a CPU, 8 cores", "nibble 1"};
  Settings settings_;
};

TEST_F(TuningFile, HoldsEachMachinesOwnForEachModel) {
  write_tuning(path_, four_, "small", some_);
  write_tuning(path_, four_, "large", other_);
  write_tuning(path_, eight_, "small", other_);
  EXPECT_EQ(read_tunings(settings_, four_), (Tunings{{"small", some_}, {"large", other_}}));
  EXPECT_EQ(read_tunings(settings_, eight_), (Tunings{{"small", other_}}));
  EXPECT_EQ(read_tunings(settings_, {"a CPU, 2 cores", "nibble 1"}), Tunings());
  write_tuning(path_, four_, "small", other_);
  EXPECT_EQ(read_tunings(settings_, four_).at("small"), other_);
  EXPECT_EQ(read_tunings(settings_, eight_).at("small"), other_);
}

TEST_F(TuningFile, OfAnotherBuildIsIgnoredAndReplaced) {
  const TunedMachine newer{four_.name, "nibble 2"};
  write_tuning(path_, four_, "small", some_);
  EXPECT_EQ(read_tunings(settings_, newer), Tunings());
  write_tuning(path_, newer, "large", other_);
  EXPECT_EQ(read_tunings(settings_, newer), (Tunings{{"large", other_}}));
  EXPECT_EQ(read_tunings(settings_, four_), Tunings());
}

// Each driver of a GPU has an entry of its own. An entry without steps is also a result: for every step, the
// kernels of the kernel table are the fastest.
TEST_F(TuningFile, HoldsTheStepsOfAGpuNextToTheSettingsOfItsHost) {
  const DeviceFacts gb10{.name = "NVIDIA GB10", .driver = "580.95", .num_multiprocessors = 48};
  EXPECT_EQ(machine_name(gb10), "NVIDIA GB10, 48 multiprocessors, driver 580.95");
  const TunedMachine gpu{machine_name(gb10), four_.build};
  const Tuning steps{.gpu_steps = {{{9, 11, 16, 16}, {64, 127, 33, 128}}}},
      none{.gpu_steps = std::vector<TunedSteps>{}};
  write_tuning(path_, four_, "small", some_);
  write_tuning(path_, gpu, "small", steps);
  write_tuning(path_, gpu, "large", none);
  EXPECT_EQ(read_tunings(settings_, gpu), (Tunings{{"small", steps}, {"large", none}}));
  EXPECT_EQ(read_tunings(settings_, four_), (Tunings{{"small", some_}}));
}

TEST_F(TuningFile, WithStepsThatAreNoNumbersOfRowsIsRefused) {
  for (const char* steps : {"1", "[[9, 11, 16]]", "[[9, 11, 16, -1]]", "[[9, 11, 16, 1.5]]",
                            "[[9, 11, 16, 1000000]]", "[{\"from\": 9}]", "null"}) {
    write(fmt::format(
        R"({{"a CPU, 4 cores": {{"nibble": "nibble 1", "models": {{"small": {{"steps": {}}}}}}}}})", steps));
    EXPECT_THAT(
        error_of([&] { read_tunings(settings_, four_); }),
        AllOf(HasSubstr("steps must be a list of [from, to, attention, experts]"), HasSubstr("--tuning off")))
        << steps;
  }
}

TEST_F(TuningFile, OfAVersionThatNamedNoBuildIsIgnored) {
  write(
      R"({"a CPU, 4 cores": {"threads": 4, "panel_rows": 16, "large_panel_rows": 96, "tile_from_tokens": 8}})");
  EXPECT_EQ(read_tunings(settings_, four_), Tunings());
}

TEST(TunedModel, DiffersByWidthFormatAndInstructionSet) {
  const ResolvedSettings setup;
  const Config config;
  const std::string plain = tuned_model(setup, config);
  Config wider = config;
  wider.hidden += 32;
  EXPECT_NE(tuned_model(setup, wider), plain);
  Config deeper = config;
  deeper.num_layers += 1;
  EXPECT_EQ(tuned_model(setup, deeper), plain);
  ResolvedSettings quantised = setup, portable = setup;
  quantised.options.dense.unembedding = Format::kMxfp4;
  EXPECT_NE(tuned_model(quantised, config), plain);
  portable.own.cpu.isa = "portable";
  EXPECT_NE(tuned_model(portable, config), plain);
}

TEST(TunedModel, ForAPretendedGpuHasSettingsOfItsOwn) {
  const ResolvedSettings setup;
  ResolvedSettings smaller = setup, fewer = setup;
  smaller.own.cuda.shared_budget = 99;
  fewer.own.cuda.num_multiprocessors = 48;
  EXPECT_NE(tuned_model(smaller, {}), tuned_model(setup, {}));
  EXPECT_NE(tuned_model(fewer, {}), tuned_model(setup, {}));
}

TEST(TunedModel, GetsTheStepsOfItsGpuWhichSayNothingOfThreads) {
  const Config config;
  ResolvedSettings setup;
  setup.options.num_threads = 7;
  setup.tunings[tuned_model(setup, config)] = Tuning{.gpu_steps = {{{9, 11, 16, 16}}}};
  EXPECT_EQ(num_threads_of(setup, config), 7);
  EXPECT_EQ(own_options(setup, config).cuda.tuned_steps, (std::vector<TunedSteps>{{9, 11, 16, 16}}));
}

TEST(TunedModel, GetsItsThreadsUnlessAFlagNamesThem) {
  const Config config;
  ResolvedSettings setup;
  EXPECT_EQ(num_threads_of(setup, config), 0);
  setup.tunings[tuned_model(setup, config)] = Tuning{3, {16, 192, 24}};
  EXPECT_EQ(num_threads_of(setup, config), 3);
  EXPECT_EQ(own_options(setup, config).cpu.tuning, (cpu::CpuTuning{16, 192, 24}));
  set_threads(setup, 5);
  EXPECT_EQ(num_threads_of(setup, config), 5);
  Config wider = config;
  wider.hidden += 32;
  EXPECT_EQ(own_options(setup, wider).cpu.tuning, cpu::CpuTuning());
}

TEST_F(TuningFile, IsLookedForInTheCacheUnlessOneIsNamedOrNoneWanted) {
  EXPECT_EQ(tuning_path(settings_), path_);
  settings_.tuning = "off";
  EXPECT_EQ(tuning_path(settings_), "");
  write_tuning(path_, four_, "small", some_);
  EXPECT_EQ(read_tunings(settings_, four_), Tunings());

  settings_.tuning.reset();
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  EXPECT_EQ(tuning_path(settings_), folder_ / "nibble" / "tuning.json");
  EXPECT_EQ(read_tunings(settings_, four_), Tunings());  // not tuned yet
  write_tuning(tuning_path(settings_), four_, "small", some_);
  EXPECT_EQ(read_tunings(settings_, four_).at("small"), some_);
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(TuningFile, IsRefusedWhereItWasNamedAndIsNotThere) {
  EXPECT_THAT(error_of([&] { read_tunings(settings_, four_); }),
              AllOf(HasSubstr(path_.string()), HasSubstr("no such file"), HasSubstr("nibble tune")));
}

TEST_F(TuningFile, ThatCannotBeUpdatedIsRefusedBeforeAnythingIsMeasured) {
  write("{");
  EXPECT_THAT(error_of([&] { prepare_tuning_file(path_); }), HasSubstr("delete it"));
  EXPECT_THAT(error_of([&] { prepare_tuning_file(folder_); }), HasSubstr("not a regular file"));
  write("{}");
  EXPECT_EQ(error_of([&] { prepare_tuning_file(path_); }), "accepted");
}

TEST_F(TuningFile, IsRefusedWithWhatIsWrongInIt) {
  const auto error = [&](const std::string& text) {
    write(text);
    return error_of([&] { read_tunings(settings_, four_); });
  };
  for (const char* text : {"", "{", "[]", "3", "\"\xff\""})
    EXPECT_THAT(error(text), HasSubstr("delete it")) << text;
  const auto entry = [](const std::string& tuning) {
    return fmt::format(R"({{"a CPU, 4 cores": {{"nibble": "nibble 1", "models": {{"small": {}}}}}}})",
                       tuning);
  };
  const std::string rest{R"("large_panel_rows": 96, "tile_from_tokens": 8})"};
  for (const char* rows : {"8", "33", "208", "16.0", "\"32\"", "null", "-16", "1e99", "18446744073709551615"})
    EXPECT_THAT(error(entry(fmt::format(R"({{"threads": 4, "panel_rows": {}, {})", rows, rest))),
                AllOf(HasSubstr("a CPU, 4 cores: small: panel_rows must be"),
                      HasSubstr("from 16 to 192, a multiple of 16")))
        << rows;
  for (const char* tuning : {"3", "[]", "{}", "null", R"({"threads": 4})"})
    EXPECT_THAT(error(entry(tuning)), HasSubstr("must be a whole number")) << tuning;
}

}  // namespace
}  // namespace nibble
