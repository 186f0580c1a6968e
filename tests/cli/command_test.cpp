#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "core/errors/error.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A program with one command that has the settings of sampling, of answers and of the machine.
struct Program {
  CLI::App app{"", "nibble"};
  Settings settings;
  CLI::App* command = app.add_subcommand("run");
  Program() {
    app.require_subcommand(1);
    add_settings(*command, settings,
                 {SettingGroup::kSampling, SettingGroup::kAnswer, SettingGroup::kMachine});
    command->callback([this] { read_environment(*command, settings); });
  }
  void parse(const std::string& line) { app.parse(line); }
  std::string refusal(const std::string& line) {
    try {
      app.parse(line);
    } catch (const CLI::ParseError& error) {
      return explain(app, error);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

// An environment variable that is set during this object's lifetime.
struct Variable {
  const char* name;
  Variable(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
};

TEST(Command, AFlagSetsItsSetting) {
  Program program;
  program.parse("run --temperature 0 --stop a --stop b");
  EXPECT_EQ(program.settings.temperature, 0);
  EXPECT_THAT(program.settings.stop, testing::ElementsAre("a", "b"));
}

TEST(Command, TheInnermostCommandThatWasGivenIsTheChosenOne) {
  Program program;
  const CLI::App* below = program.command->add_subcommand("below");
  program.parse("run");
  EXPECT_EQ(&chosen_command(program.app), program.command);
  program.parse("run below");
  EXPECT_EQ(&chosen_command(program.app), below);
}

TEST(Command, OfAFlagGivenTwiceTheLastCounts) {
  Program program;
  program.parse("run --temperature 0 --temperature 0.5");
  EXPECT_EQ(program.settings.temperature, 0.5);
}

TEST(Command, AVariableSetsWhatNoFlagSets) {
  const Variable temperature("NIBBLE_TEMPERATURE", "0.5"), top_k("NIBBLE_TOP_K", "7");
  Program program;
  program.parse("run --temperature 0");
  EXPECT_EQ(program.settings.temperature, 0);
  EXPECT_EQ(program.settings.top_k, 7);
}

TEST(Command, AFlagWithoutAValueTurnsASettingOff) {
  const Variable graphs("NIBBLE_GRAPHS", "on");
  Program off, on;
  off.parse("run --no-graphs --graphs on");
  EXPECT_FALSE(off.settings.graphs);
  EXPECT_EQ(command_line(*off.command), "nibble run --graphs on --no-graphs");
  on.parse("run");
  EXPECT_TRUE(on.settings.graphs);
}

TEST(Command, AFlagWithoutAValueTurnsASwitchOn) {
  Settings settings;
  CLI::App app("", "nibble");
  add_settings(app, settings, {SettingGroup::kGpus, SettingGroup::kNodes});
  app.parse("--nodes 2 --expert-parallel --node-rank 1");
  EXPECT_TRUE(settings.expert_parallel);
  EXPECT_EQ(settings.node_rank, 1);
  EXPECT_EQ(command_line(app), "nibble --expert-parallel --nodes 2 --node-rank 1");
}

TEST(Command, AVariableOfAnotherCommandIsNotRead) {
  const Variable history("NIBBLE_HISTORY", "nonsense");
  Program program;
  EXPECT_NO_THROW(program.parse("run"));
}

TEST(Command, ABadVariableIsNamed) {
  const Variable top_p("NIBBLE_TOP_P", "2");
  Program program;
  EXPECT_EQ(program.refusal("run"), "NIBBLE_TOP_P '2': expected a number above 0, up to 1");
}

TEST(Command, ANegativeNumberIsAValueAndNotAFlag) {
  Program program;
  EXPECT_EQ(program.refusal("run --temperature -1"), "--temperature '-1': expected a number from 0 to 2");
}

TEST(Command, AnUnknownFlagIsAnsweredWithANearOneInOneLine) {
  Program program;
  EXPECT_EQ(program.refusal("run --temprature 1"),
            "unknown flag '--temprature': did you mean --temperature? See 'nibble run --help'");
  EXPECT_EQ(program.refusal("run --min=0.5"), "unknown flag '--min=0.5'. See 'nibble run --help'");
  EXPECT_EQ(program.refusal("run --min-q=0.5"),
            "unknown flag '--min-q=0.5': did you mean --min-p? See 'nibble run --help'");
  EXPECT_EQ(program.refusal("rum"), "unknown command 'rum': did you mean 'nibble run'?");
  EXPECT_THAT(program.refusal("walk"), AllOf(HasSubstr("unknown command 'walk'"), HasSubstr("accepts run")));
  EXPECT_THAT(program.refusal(""), HasSubstr("needs a command: run"));
  EXPECT_THAT(program.refusal("run here"), HasSubstr("unexpected argument 'here'"));
}

TEST(Command, TheHelpOfACommandListsEverySettingOfItsGroupsWithItsDefault) {
  CLI::App app("", "nibble");
  Settings settings;
  CLI::App* run = app.add_subcommand("run");
  define_run(*run, settings);
  const std::string help = run->help();
  for (const Setting& setting : setting_table()) {
    if (setting.group == SettingGroup::kBatch || setting.group == SettingGroup::kCache ||
        setting.group == SettingGroup::kChat)
      continue;  // run has only one sequence and one question
    const std::string letter = setting.letter.empty() ? "" : fmt::format("-{},", setting.letter);
    const std::string also = setting.also.empty() ? "" : fmt::format(",--{}", setting.also);
    EXPECT_THAT(help, AllOf(HasSubstr(fmt::format("{}{}{} {}", letter, flag(setting), also, setting.value)),
                            HasSubstr("[" + default_of(setting) + "]")));
  }
}

TEST(Command, AModelIsNamedByItsPlaceOrByItsFlag) {
  for (const char* line : {"tiny", "-m tiny", "--model tiny"}) {
    CLI::App app("", "nibble");
    std::string model;
    add_model(app, model);
    app.parse(line);
    EXPECT_EQ(model, "tiny");
    EXPECT_EQ(command_line(app), "nibble tiny");
  }
}

TEST(Command, EveryHelpHasExamples) {
  Settings settings;
  for (const auto define : {&define_run, &define_chat, &define_eval}) {
    CLI::App app("", "nibble");
    define(app, settings);
    EXPECT_THAT(app.help(), HasSubstr("Examples:\n  nibble "));
  }
}

TEST(Command, WhatWasGivenCanBeGivenAgain) {
  const Variable top_k("NIBBLE_TOP_K", "7");
  const Variable top_p("NIBBLE_TOP_P", "0.5");
  Program program;
  bool as_json = false;
  program.command->add_flag("-j,--json", as_json);
  program.parse("run --temperature 0 --stop a --stop b --top-p 0.9 -j");
  EXPECT_EQ(command_line(*program.command),
            "NIBBLE_TOP_K=7 nibble run --temperature 0 --top-p 0.9 --stop a --stop b --json");
}

}  // namespace
}  // namespace nibble::cli
