// Records the times of a step's operations for a profile, without gaps, so that they add up to the step.
#pragma once

#include <vector>

#include "backend/timed_work.h"
#include "core/clock.h"

namespace nibble::cpu {

class WorkClock {
 public:
  explicit WorkClock(std::vector<TimedWork>* work) : work_(work) {}  // null: records nothing
  // Attributes the time since the last lap, or since construction, to `operation`.
  void lap(Operation operation, std::string_view name, bool is_draft = false) {
    if (!work_) return;
    const double now = watch_.seconds() * 1e6;
    work_->push_back({operation, name, last_, now, is_draft});
    last_ = now;
  }

 private:
  std::vector<TimedWork>* work_;
  Stopwatch watch_;
  double last_{0};
};

}  // namespace nibble::cpu
