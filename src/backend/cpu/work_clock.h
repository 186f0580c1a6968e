// Says what a step did, and when, if anybody asks: without a gap, so that the parts add up to the step.
#pragma once

#include <vector>

#include "backend/timed_work.h"
#include "core/clock.h"

namespace nibble::cpu {

class WorkClock {
 public:
  explicit WorkClock(std::vector<TimedWork>* work) : work_(work) {}  // null: nobody asks
  // What was done since the lap before, or since this was made.
  void lap(StepPart part, std::string_view name) {
    if (!work_) return;
    const double now = watch_.seconds() * 1e6;
    work_->push_back({part, name, last_, now});
    last_ = now;
  }

 private:
  std::vector<TimedWork>* work_;
  Stopwatch watch_;
  double last_{0};
};

}  // namespace nibble::cpu
