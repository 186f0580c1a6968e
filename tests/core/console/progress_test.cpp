#include "core/console/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nibble {
namespace {

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Progress, WhereThereIsNoTerminalIsOneLineAtTheEnd) {
  std::FILE* out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  const ReportProgress report = show_progress("writing x", {}, out);
  report(1'000'000, 3'000'000);
  report(2'000'000, 3'000'000);
  EXPECT_EQ(text_of(out), "");
  report(3'000'000, 3'000'000);
  EXPECT_THAT(text_of(out), testing::MatchesRegex("writing x: 3\\.0 MB in [0-9.]+ s \\([0-9.]+ .B/s\\)\n"));
  std::fclose(out);
}

TEST(Progress, WhatIsNotBytesIsCountedByItsName) {
  std::FILE* out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  show_progress("answering", "tasks", out)(60, 60);
  EXPECT_THAT(text_of(out),
              testing::MatchesRegex("answering: 60 tasks in [0-9.]+ s \\([0-9.]+ tasks/s\\)\n"));
  std::fclose(out);
  EXPECT_EQ(progress_bar("answering", 15, 60, 60, "tasks"),
            "answering [######                    ]  25 %  15 of 60 tasks");
}

TEST(Progress, TheBarFillsWithTheShareDone) {
  EXPECT_EQ(progress_bar("x", 5'000'000'000, 10'000'000'000, 49),
            "x [##########          ]  50 %  5.0 GB of 10.0 GB");
  EXPECT_EQ(progress_bar("x", 0, 10'000, 43), "x [              ]   0 %  0.0 kB of 10.0 kB");
}

TEST(Progress, TheTimeLeftIsThatOfTheSpeedSoFar) {
  EXPECT_EQ(time_left(25, 100, 10), ", 30 s left");
  EXPECT_EQ(time_left(25, 100, 100), ", 5 min left");
  EXPECT_EQ(time_left(1, 100, 10), "");    // too little is done for an estimate
  EXPECT_EQ(time_left(50, 100, 0.5), "");  // too early for an estimate
  EXPECT_EQ(time_left(100, 100, 10), "");
  EXPECT_EQ(time_left(0, 0, 10), "");
}

TEST(Progress, TheBarNeverLeavesItsWidth) {
  for (size_t width = 0; width < 200; ++width)
    EXPECT_LE(progress_bar("making a model with a long name", 123'456'789, 999'999'999'999, width).size(),
              width);
}

TEST(Progress, AnEmptyTaskIsDone) { EXPECT_THAT(progress_bar("x", 0, 0, 80), testing::HasSubstr("100 %")); }

}  // namespace
}  // namespace nibble
