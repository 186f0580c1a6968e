// Failures of steps: their causes, their number, and whether the engine can continue.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "core/memory/with_memory.h"

namespace nibble {

inline std::string cause_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) ? "out of memory" : error.what();
}

class Faults {
 public:
  // Number of consecutive steps with the same fault after which the engine is lost.
  static constexpr int kMostSame{3};

  // Counts a failed step. Declares the engine lost if the backend `is_lost` or the same fault repeats.
  void count(const std::string& why, bool is_lost) {
    ++num_;
    num_same_ = last_ == why ? num_same_ + 1 : 1;
    with_memory([&] {
      last_ = why;
      if (!lost_.empty()) return;  // the first reason stays
      if (is_lost)
        lost_ = fmt::format("the model can't be run any more: {}", why);
      else if (num_same_ == kMostSame)
        lost_ = fmt::format("the model can't be run any more: {} steps in a row failed: {}", kMostSame, why);
    });
  }
  void count_success() { num_same_ = 0; }

  uint64_t num() const { return num_; }
  const std::string& lost() const { return lost_; }  // the reason why the engine is lost, else empty

 private:
  uint64_t num_{0};
  std::string last_;  // message of the last failed step
  int num_same_{0};   // consecutive failures with that message
  std::string lost_;
};

}  // namespace nibble
