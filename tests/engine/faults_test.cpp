#include "engine/faults.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace nibble {
namespace {

TEST(Faults, TheSameOneInThreeStepsInARowLosesTheEngine) {
  Faults faults;
  for (int n = 0; n < 2; ++n) faults.count("no page", false);
  EXPECT_EQ(faults.lost(), "");
  faults.count("no page", false);
  EXPECT_EQ(faults.lost(), "the model can't be run any more: 3 steps in a row failed: no page");
  EXPECT_EQ(faults.num(), 3u);
}

TEST(Faults, DifferentOnesOrAStepThatSucceedsKeepTheEngine) {
  Faults faults;
  for (const char* why : {"a", "a", "b", "a", "a"}) faults.count(why, false);
  faults.count_success();
  for (int n = 0; n < 2; ++n) faults.count("a", false);
  EXPECT_EQ(faults.lost(), "");
  EXPECT_EQ(faults.num(), 7u);
}

TEST(Faults, ALostBackendLosesTheEngineAtOnce) {
  Faults faults;
  faults.count("the device is gone", true);
  EXPECT_EQ(faults.lost(), "the model can't be run any more: the device is gone");
  faults.count("the device does not answer", true);
  EXPECT_EQ(faults.lost(), "the model can't be run any more: the device is gone") << "the first reason stays";
}

TEST(Faults, TheCauseOfAFailedAllocationIsPlain) {
  EXPECT_EQ(cause_of(std::bad_alloc()), "out of memory");
  EXPECT_EQ(cause_of(std::runtime_error("x")), "x");
}

}  // namespace
}  // namespace nibble
