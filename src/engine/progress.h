// Time since the engine last ended a step. Other threads read this time to detect a backend that hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace nibble {

struct EngineProgress {
  // Time since the last step ended or, if later, since work arrived while the engine was idle; 0 if idle.
  double seconds{0};
  // Expected time of the steps under way: their rows times the longest measured time per row; at first 0.
  double expected_seconds{0};
};

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  void begin_work(Clock::time_point now = Clock::now()) {  // starts the clock if it is stopped
    int64_t nothing = kNoWork;
    since_.compare_exchange_strong(nothing, ticks(now));
  }
  void end_work() { since_ = kNoWork; }  // stops the clock

  void begin_step(int num_rows) { num_rows_ += num_rows; }
  // Restarts the clock: a step has ended, successfully or not.
  void end_step(int num_rows, Clock::time_point now = Clock::now()) {
    num_rows_ -= num_rows;
    since_ = ticks(now);
  }
  // Restarts the clock: the steps under way were abandoned.
  void end_all_steps(Clock::time_point now = Clock::now()) {
    num_rows_ = 0;
    since_ = ticks(now);
  }
  void learn(int num_rows, double seconds) {
    if (num_rows > 0 && seconds / num_rows > row_seconds_) row_seconds_ = seconds / num_rows;
  }

  EngineProgress read(Clock::time_point now = Clock::now()) const {
    const int64_t since = since_;
    if (since == kNoWork) return {};
    const auto passed = Clock::duration(ticks(now) - since);
    return {std::chrono::duration<double>(passed).count(), num_rows_ * row_seconds_};
  }

 private:
  static constexpr int64_t kNoWork{INT64_MIN};
  static int64_t ticks(Clock::time_point time) { return time.time_since_epoch().count(); }

  std::atomic<int64_t> since_{kNoWork};
  std::atomic<int> num_rows_{0};  // rows of the steps under way
  std::atomic<double> row_seconds_{0};
};

}  // namespace nibble
