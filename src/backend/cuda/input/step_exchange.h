// Host and kernels exchange a step's input and tokens through host memory, which the device accesses
// directly. Copies by the copy engine would leave the device idle while work moves between engines.
//
// Step n uses input and output buffer n % 2. Graph arguments are fixed, so both sides count the steps: the
// device in Workspace::step, the host in InputUpload, which compares its count with StepOutput::step.
#pragma once

#include <cstdint>

#include "backend/cuda/input/sample_input.h"

namespace nibble::cuda {

// Precedes a step's input. After the header come rows of 16 bytes (InputParts).
struct alignas(16) InputHeader {
  uint32_t num_bytes;   // number of bytes after the header
  uint32_t num_chains;  // number of draft chains that the previous step made
};

// Times are nanoseconds of the device's clock. A step begins when wait_for_predecessor() returns in its first
// kernel, which may have started earlier. It ends when the last row has its token.
struct RowOutput {
  unsigned long long end_ns;
  SampleResult result;  // the row's token; of result.top, only the first num_top entries are written
};
struct StepOutput {
  unsigned long long begin_ns;
  unsigned long long met_ns;  // time when all ranks had sampled their tokens; 0 with a single rank
  uint32_t step;
};
static_assert(sizeof(StepOutput) % alignof(RowOutput) == 0);  // RowOutputs follow StepOutput in memory

struct StepExchange {
  InputHeader* inputs[2]{};
  StepOutput* outputs[2]{};
  // [T], for steps with draft trees. Entries of a run's last known row and of accepted drafts: index in the
  // run of the next accepted draft; -1: none. Other entries are not written.
  int32_t* kept[2]{};
};

}  // namespace nibble::cuda
