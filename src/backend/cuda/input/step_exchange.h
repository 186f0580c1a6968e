// Buffers in host memory through which host and kernels exchange a step's input and tokens. The device
// accesses the buffers directly: with copies by the copy engine, the device would idle while work moves
// between engines.
//
// Step n uses input and output buffer n % 2. The arguments of a CUDA graph are fixed, so both sides count the
// steps: the device in Workspace::step, the host in InputUpload. CudaBackend::wait() compares the device's
// count (StepOutput::step) with the host's.
#pragma once

#include <cstdint>

#include "backend/cuda/input/sample_input.h"

namespace nibble::cuda {

// The header that comes before a step's input in memory. The input begins with rows of 16 bytes each
// (InputParts).
struct alignas(16) InputHeader {
  uint32_t num_bytes;   // number of bytes after the header
  uint32_t num_chains;  // draft chains that the previous step made
};

// Times are nanoseconds of the device's clock. A step begins when wait_for_predecessor() returns in its first
// kernel, which may have started earlier. The step ends when its last row has a token.
struct RowOutput {
  unsigned long long end_ns;
  SampleResult result;  // the row's token; of result.top, only the first num_top entries are written
};
struct StepOutput {
  unsigned long long begin_ns;
  unsigned long long met_ns;  // time at which all ranks had reached the step's last barrier; 0: no barrier
  uint32_t step;
};
static_assert(sizeof(StepOutput) % alignof(RowOutput) == 0);  // a step's RowOutputs follow its StepOutput

struct StepExchange {
  InputHeader* inputs[2]{};
  StepOutput* outputs[2]{};
  // [T], for steps with draft trees: the accepted drafts of each run, as a linked list. The entry of the
  // run's last known row holds the first accepted draft, and the entry of each accepted draft holds the next
  // one, as an index in the run (-1: none). Other entries are not written.
  int32_t* kept[2]{};
};

}  // namespace nibble::cuda
