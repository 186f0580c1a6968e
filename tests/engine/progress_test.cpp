#include "engine/progress.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

using namespace std::chrono_literals;
using Time = Progress::Clock::time_point;

const Time kStart{Progress::Clock::now()};

TEST(Progress, CountsFromTheFirstRequestAndFromTheEndOfEachStep) {
  Progress progress;
  EXPECT_EQ(progress.read(kStart).seconds, 0);
  progress.begin_work(kStart);
  progress.begin_work(kStart + 2s);  // a second request
  EXPECT_EQ(progress.read(kStart + 3s).seconds, 3);
  progress.begin_step(8);
  EXPECT_EQ(progress.read(kStart + 5s).seconds, 5);
  progress.end_step(8, kStart + 6s);
  EXPECT_EQ(progress.read(kStart + 7s).seconds, 1);
}

TEST(Progress, StandsStillWhileThereIsNothingToDo) {
  Progress progress;
  progress.begin_work(kStart);
  progress.end_work();
  EXPECT_EQ(progress.read(kStart + 100s).seconds, 0);
  progress.begin_work(kStart + 100s);
  EXPECT_EQ(progress.read(kStart + 101s).seconds, 1);
}

TEST(Progress, ExpectsRowsToTakeWhatTheSlowestTook) {
  Progress progress;
  progress.begin_work(kStart);
  progress.begin_step(100);
  EXPECT_EQ(progress.read(kStart).expected_seconds, 0);
  progress.learn(1, 0.5);
  progress.learn(100, 1);
  EXPECT_EQ(progress.read(kStart).expected_seconds, 50);
  progress.begin_step(10);  // launches the next step before the first step has ended
  EXPECT_EQ(progress.read(kStart).expected_seconds, 55);
  progress.end_step(100, kStart);
  EXPECT_EQ(progress.read(kStart).expected_seconds, 5);
}

}  // namespace
}  // namespace nibble
