// A record of what a step did and when. C++17, for device code.
#pragma once

#include <string_view>

#include "model/operation.h"

namespace nibble {

// One launch or loop of a step, with the time since the step began, in microseconds on the clock of the device that ran it.
struct TimedWork {
  Operation operation;    // of one that runs several operations, the first
  std::string_view name;  // the backend's own
  double begin{0}, end{0};
  bool is_draft{false};  // of a draft head, behind the step or in it
};

}  // namespace nibble
