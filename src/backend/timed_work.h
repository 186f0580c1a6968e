// Times of a step's launches or loops. This header is C++17, because CUDA code includes it.
#pragma once

#include <string_view>

#include "model/operation.h"

namespace nibble {

// One launch or loop. Times are in microseconds since the start of the step, on the device's clock.
struct TimedWork {
  Operation operation;    // the first one, if the launch runs several operations
  std::string_view name;  // the backend's name for the launch or loop
  double begin{0}, end{0};
  bool is_draft{false};  // work of a draft head
};

}  // namespace nibble
