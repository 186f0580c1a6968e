// The host and the kernels of a step exchange input and tokens through the host's memory, which the device reads and writes itself: a copy by
// the copy engine in front of a step or behind it would have the device idle while work goes over from one engine to the other.
//
// There are two places of each kind, in turn: those of step n are number n % 2. Both sides count the steps, the device in Workspace::step
// and the host in InputUpload, because the arguments of a graph are fixed. A step tells its number (StepOutput::step), which the host
// compares with its own.
#pragma once

#include <cstdint>

#include "backend/cuda/sample/sample_input.h"

namespace nibble::cuda {

// In front of a step's input, which is rows of 16 bytes at first (InputParts).
struct alignas(16) InputHeader {
  uint32_t num_bytes;   // behind the header
  uint32_t num_chains;  // of drafts, that the step before has made
};

// Times are nanoseconds of the device's own clock. A step begins at what its first kernel finds behind wait_for_predecessor(): the kernel
// itself may start earlier. It ends at the latest time at which a row had its token.
struct RowOutput {
  unsigned long long end_ns;
  SampleResult result;  // of `top` only the first num_top
};
struct StepOutput {
  unsigned long long begin_ns;
  unsigned long long met_ns;  // ranks have met behind the choice of tokens; 0: there is one rank
  uint32_t step;              // its number
};
static_assert(sizeof(StepOutput) % alignof(RowOutput) == 0);  // the rows lie behind it

struct StepExchange {
  InputHeader* inputs[2]{};
  StepOutput* outputs[2]{};
  // [T]: of the last known row of a tree of drafts, and of each right one, the row of the run that is the next right one; -1: none is. Those
  // of other rows are not written.
  int32_t* kept[2]{};
};

}  // namespace nibble::cuda
