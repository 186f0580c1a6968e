// What a step did, and when. C++17, as device code has it.
#pragma once

#include <string_view>

namespace nibble {

// What the time of a step goes to.
enum class StepPart { kDense, kExperts, kAttention, kRouting, kOutput };  // kRouting: norms as well
// Something that a step did, and when: microseconds since it began, on the clock of what did it.
struct TimedWork {
  StepPart part;
  std::string_view name;
  double begin{0}, end{0};
};

}  // namespace nibble
