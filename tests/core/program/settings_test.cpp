#include "core/program/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "core/errors/error.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::HasSubstr;

const Setting& row(std::string_view name) {
  for (const Setting& setting : setting_table())
    if (setting.name == name) return setting;
  ADD_FAILURE() << "no setting " << name;
  return setting_table().front();
}

Settings with(std::string_view name, std::string_view text) {
  Settings settings;
  set(settings, row(name), text, flag(row(name)));
  return settings;
}

std::string refusal(std::string_view name, std::string_view text) {
  return error_of([&] { with(name, text); });
}

TEST(Settings, NamesGiveFlagsAndVariables) {
  EXPECT_EQ(flag(row("max-batch-tokens")), "--max-batch-tokens");
  EXPECT_EQ(variable(row("max-batch-tokens")), "NIBBLE_MAX_BATCH_TOKENS");
}

TEST(Settings, EveryRowHasItsOwnNameAndSaysWhatItDoes) {
  std::set<std::string_view> names;
  for (const Setting& setting : setting_table()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(default_of(setting).empty()) << setting.name;
  }
}

TEST(Settings, TheDefaultThatIsShownIsOneThatIsAccepted) {
  for (const Setting& setting : setting_table()) {
    if (!setting.unset.empty()) continue;  // the default is described in words, not as a value
    Settings settings;
    EXPECT_NO_THROW(set(settings, setting, default_of(setting), flag(setting)));
  }
}

TEST(Settings, ATopPThatLeavesNoTokenIsRefused) {
  // 1e-60 is 0 as a float.
  for (const char* text : {"0", "-0", "0.0", "1e-60"})
    EXPECT_THAT(refusal("top-p", text), testing::HasSubstr("a number above 0, up to 1")) << text;
  EXPECT_EQ(with("top-p", "1e-30").top_p, 1e-30);
  EXPECT_EQ(with("top-p", "1").top_p, 1);
}

TEST(Settings, ValuesArriveInTheirMember) {
  EXPECT_EQ(with("top-k", "40").top_k, 40);
  EXPECT_EQ(with("temperature", "0.25").temperature, 0.25);
  EXPECT_EQ(with("temperature", "2").temperature, 2);  // the limit of OpenAI's API
  EXPECT_EQ(with("presence-penalty", "-1.5").presence_penalty, -1.5);
  EXPECT_EQ(with("seed", "18446744073709551615").seed, UINT64_MAX);
  EXPECT_EQ(with("reasoning", "high").reasoning, "high");
  EXPECT_EQ(with("isa", "avx2").isa, "avx2");
  EXPECT_EQ(with("date", "2024-02-29").date, "2024-02-29");
  EXPECT_EQ(with("system", "").system, "");
}

TEST(Settings, ASwitchIsOnOrOff) {
  EXPECT_TRUE(with("expert-parallel", "on").expert_parallel);
  EXPECT_FALSE(with("expert-parallel", "off").expert_parallel);
  EXPECT_EQ(refusal("expert-parallel", "1"), "--expert-parallel '1': expected one of on, off");
  EXPECT_EQ(default_of(row("expert-parallel")), "off");
  EXPECT_FALSE(with("graphs", "off").graphs);
  EXPECT_EQ(refusal("prefix-cache", "true"), "--prefix-cache 'true': expected one of on, off");
  EXPECT_EQ(default_of(row("jit")), "on");
}

TEST(Settings, AListGrowsWithEachValue) {
  Settings settings;
  set(settings, row("stop"), "\n\n", "--stop");
  set(settings, row("stop"), "END", "--stop");
  EXPECT_THAT(settings.stop, testing::ElementsAre("\n\n", "END"));
}

TEST(Settings, ARefusalSaysWhoSaidItAndWhatIsAccepted) {
  EXPECT_EQ(refusal("temperature", "-1"), "--temperature '-1': expected a number from 0 to 2");
  EXPECT_EQ(refusal("top-k", "1.5"), "--top-k '1.5': expected a whole number from 0 to 1048576");
  EXPECT_EQ(refusal("reasoning", "none"), "--reasoning 'none': expected one of low, medium, high");
  EXPECT_THAT(refusal("date", "2025-02-29"), HasSubstr("expected a date"));
}

TEST(Settings, WhatIsNoNumberInRangeIsRefused) {
  for (const char* text : {"", " 1", "1 ", "1x", "nan", "inf", "-0.1", "2.01", "100", "1e999"})
    EXPECT_NE(refusal("temperature", text), "accepted") << text;
  for (const char* text : {"", "-1", "1025", "99999999999999999999", "0x10"})
    EXPECT_NE(refusal("threads", text), "accepted") << text;
  for (const char* text : {"-1", "18446744073709551616"})
    EXPECT_NE(refusal("seed", text), "accepted") << text;
  EXPECT_NE(refusal("isa", ""), "accepted");
  EXPECT_NE(refusal("stop", ""), "accepted");
}

TEST(Settings, NoTwoHaveTheSameLetter) {
  std::set<std::string_view> letters;
  for (const Setting& setting : setting_table())
    if (!setting.letter.empty()) {
      EXPECT_TRUE(letters.insert(setting.letter).second) << setting.name;
    }
  EXPECT_EQ(letters, (std::set<std::string_view>{"n", "c", "t"}));
}

TEST(Settings, AValueIsShownAsItIsSetAndLeavesWithReset) {
  for (const auto& [name, text] : {std::pair{"top-k", "40"}, {"max-tokens", "7"}, {"reasoning", "high"}}) {
    Settings settings = with(name, text);
    EXPECT_EQ(value_of(settings, row(name)), text);
    reset(settings, row(name));
    EXPECT_EQ(value_of(settings, row(name)), default_of(row(name)));
  }
}

TEST(Settings, AChoiceSaysItsValuesAndANumberHasNone) {
  EXPECT_EQ(choices_of(row("kv-dtype")), (std::vector<std::string_view>{"bf16", "fp8"}));
  EXPECT_EQ(choices_of(row("graphs")), (std::vector<std::string_view>{"on", "off"}));
  EXPECT_TRUE(choices_of(row("top-k")).empty());
}

}  // namespace
}  // namespace nibble
