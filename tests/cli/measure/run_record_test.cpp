#include "cli/measure/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "cli/version.h"

namespace nibble::cli {
namespace {

RunRecord record() {
  return {.date = "2026-11-22T02:36:02Z",
          .command_line = "nibble bench tiny",
          .machine = {.cpu = "A CPU",
                      .num_cores = 4,
                      .memory_bytes = 1'000,
                      .cache_bytes = {},
                      .cpu_mhz = 2100,
                      .highest_cpu_mhz = {},
                      .device = {}},
          .kernels = {},
          .num_warmups = 1};
}

TEST(RunRecord, SaysWhenByWhichCommandOnWhatAndAfterHowManyWarmUps) {
  const auto json = to_json(record());
  EXPECT_EQ(json["date"], "2026-11-22T02:36:02Z");
  EXPECT_EQ(json["command_line"], "nibble bench tiny");
  EXPECT_EQ(json["num_warmups"], 1);
  EXPECT_EQ(json["machine"]["cpu"], "A CPU");
  EXPECT_EQ(json["machine"]["num_cores"], 4);
  EXPECT_EQ(json["machine"]["memory_bytes"], 1'000);
  EXPECT_EQ(json["machine"]["cpu_mhz"], 2100);
  for (const char* key : {"version", "commit", "dirty", "build", "compiler"})
    EXPECT_TRUE(json["nibble"].contains(key)) << key;
}

TEST(RunRecord, WhatIsNotKnownIsNull) {
  const auto json = to_json(record());
  for (const char* key : {"cache_bytes", "highest_cpu_mhz", "device"}) {
    ASSERT_TRUE(json["machine"].contains(key)) << key;
    EXPECT_TRUE(json["machine"][key].is_null()) << key;
  }
  EXPECT_TRUE(json["kernels"].is_null());
}

TEST(RunRecord, ADeviceHasNameDriverClocksPowerAndTemperature) {
  RunRecord with_device = record();
  with_device.machine.device = DeviceFacts{.name = "A GPU",
                                           .driver = "580.1",
                                           .num_multiprocessors = 132,
                                           .memory_bytes = 80'000,
                                           .cache_bytes = 50,
                                           .core_mhz = 1700,
                                           .highest_core_mhz = 1980,
                                           .memory_mhz = 2619,
                                           .highest_memory_mhz = {},
                                           .power_watts = 651.4,
                                           .power_limit_watts = 700,
                                           .temperature_celsius = 61};
  const auto device = to_json(with_device)["machine"]["device"];
  EXPECT_EQ(device["name"], "A GPU");
  EXPECT_EQ(device["driver"], "580.1");
  EXPECT_EQ(device["core_mhz"], 1700);
  EXPECT_EQ(device["highest_core_mhz"], 1980);
  EXPECT_TRUE(device["highest_memory_mhz"].is_null());
  EXPECT_EQ(device["power_watts"], 651.4);
  EXPECT_EQ(device["temperature_celsius"], 61);
  EXPECT_EQ(with_device.machine.backend_cache_bytes(), 50u);
}

TEST(RunRecord, TheCommitIsApartFromWhatIsUncommitted) {
  const auto nibble = to_json(record())["nibble"];
  EXPECT_THAT(nibble["commit"].get<std::string>(), testing::Not(testing::HasSubstr("dirty")));
  EXPECT_EQ(nibble["dirty"].is_null(), nibble["commit"] == "unknown");
  if (nibble["dirty"].is_boolean()) {
    EXPECT_EQ(nibble["dirty"], this_build().commit.ends_with("-dirty"));
  }
}

TEST(RunRecord, TheDateIsUtc) {
  EXPECT_TRUE(
      std::regex_match(utc_now(), std::regex("20\\d\\d-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-6]\\dZ")))
      << utc_now();
}

TEST(RunRecord, IsOneLineWhateverBytesAPathHas) {
  const std::string line = record_line({{"model", "a\n\xff"}});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["model"], "a\n\xef\xbf\xbd");
}

}  // namespace
}  // namespace nibble::cli
