#include "cli/terminal/loading_lines.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace nibble::cli {
namespace {

// Returns what `act` prints to a file, which is no terminal.
std::string printed(const std::function<void(LoadingLines&)>& act) {
  std::FILE* file = std::tmpfile();
  LoadingLines lines(file);
  act(lines);
  std::string text(static_cast<size_t>(std::ftell(file)), 0);
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(LoadingLines, AreWrittenEveryTenSecondsWithTheTimeLeft) {
  const std::string text = printed([](LoadingLines& lines) {
    for (int second = 0; second <= 40; ++second) lines.report(static_cast<size_t>(second), 40, second);
  });
  EXPECT_EQ(text, "loading: 25 %, 30 s left\nloading: 50 %, 20 s left\nloading: 75 %, 10 s left\n");
}

TEST(LoadingLines, AreAbsentIfLoadingIsShort) {
  EXPECT_EQ(printed([](LoadingLines& lines) {
              for (int done = 0; done <= 100; ++done)
                lines.report(static_cast<size_t>(done), 100, 0.09 * done);
            }),
            "");
}

TEST(LoadingLines, ATaskHasATimeOfItsOwn) {
  const std::string text = printed([](LoadingLines& lines) {
    for (int second = 0; second <= 9; ++second) lines.report(static_cast<size_t>(second), 9, second);
    for (int second = 0; second < 10; ++second) lines.report(static_cast<size_t>(second), 100, 100 + second);
    lines.report(10, 100, 110);
  });
  // The last report is 110 s after the first task's start, but 10 s after the second task's start. In 10 s
  // the second task did 10 %, so the remaining 90 % take another 90 s.
  EXPECT_EQ(text, "loading: 0 %\nloading: 10 %, 90 s left\n");
}

}  // namespace
}  // namespace nibble::cli
