// Times of the launches or loops of a step. C++17, for device code.
#pragma once

#include <string_view>

#include "model/operation.h"

namespace nibble {

// One launch or loop. Times are microseconds since the step began, on the device's clock.
struct TimedWork {
  Operation operation;    // the first operation, if the launch runs several
  std::string_view name;  // the backend's name for the launch or loop
  double begin{0}, end{0};
  bool is_draft{false};  // work of a draft head
};

}  // namespace nibble
