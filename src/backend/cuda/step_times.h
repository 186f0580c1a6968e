// When a step began and ended by the device's own clock, so that the host sees how long the device was idle between two steps.
//
// The begin is what its first kernel finds behind wait_for_predecessor(): a kernel itself may start earlier. The end is the latest time at
// which a row had its token. Both are single stores of threads that are done anyway, and reach the host in the copy that brings the tokens:
// a copy of their own would take part of the time that they measure.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// In nanoseconds. As long as the arrays of the workspace are aligned, so that the results lie right behind it (workspace.h).
struct alignas(256) StepTimes {
  unsigned long long begin_ns, end_ns;
};

}  // namespace nibble::cuda
