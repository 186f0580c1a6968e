// Records the times of a step's operations for a profile, without gaps: their sum is the time of the step.
// Also reports the end of each operation, for traces of its result.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "backend/timed_work.h"
#include "core/system/clock.h"

namespace nibble::cpu {

class WorkClock {
 public:
  explicit WorkClock(std::vector<TimedWork>* work) : work_(work) {}  // null: records nothing
  // `on_end` is called after each operation of the model.
  void set_on_end(std::function<void(Operation)> on_end) { on_end_ = std::move(on_end); }
  // Counts the time since the last lap, or since construction, for `operation`.
  void lap(Operation operation, std::string_view name, bool is_draft = false) {
    if (on_end_ && !is_draft) on_end_(operation);
    if (!work_) return;
    const double now = watch_.seconds() * 1e6;
    work_->push_back({operation, name, last_, now, is_draft});
    last_ = now;
  }

 private:
  std::vector<TimedWork>* work_;
  std::function<void(Operation)> on_end_;
  Stopwatch watch_;
  double last_{0};
};

}  // namespace nibble::cpu
