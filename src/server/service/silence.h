#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/system/clock.h"

namespace nibble::server {

// The time since the last write to a stream's client.
class Silence {
 public:
  explicit Silence(std::chrono::milliseconds most) : most_(most) {}
  bool is_over() const { return time_since_begin() >= most_; }
  std::chrono::milliseconds time_left() const {  // at least 1 ms
    return std::max(std::chrono::milliseconds(1), most_ - time_since_begin());
  }
  void begin_again() { watch_ = Stopwatch(); }

 private:
  std::chrono::milliseconds time_since_begin() const {
    return std::chrono::milliseconds(static_cast<int64_t>(watch_.seconds() * 1e3));
  }

  const std::chrono::milliseconds most_;
  Stopwatch watch_;
};

}  // namespace nibble::server
