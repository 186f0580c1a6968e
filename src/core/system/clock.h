// A stopwatch on the monotonic clock, started when constructed.
#pragma once

#include <chrono>

namespace nibble {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  // Returns the seconds from this stopwatch's start to the start of `later`.
  double seconds_to(const Stopwatch& later) const {
    return std::chrono::duration<double>(later.start_ - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_{Clock::now()};
};

}  // namespace nibble
