// A stream of launches, and where a launch writes its timestamps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

class Recorder;

// Where a launch writes its timestamps, in nanoseconds of the device's clock: `begin`: when its first CTA
// could begin. `end`: when its last CTA was done. `middle`, in a launch that does routing and then experts:
// when its last CTA was done with routing. Null: the launch is not recorded.
struct Timestamps {
  unsigned long long *begin{nullptr}, *middle{nullptr}, *end{nullptr};
};

// The operation and the name of a launch; `first_operation` and `first_name` are those of its part before the
// middle timestamp, if it has one.
struct Label {
  Operation operation;
  const char* name;
  Operation first_operation{};
  const char* first_name{nullptr};
};

// A CUDA stream, and the recorder of its launches' timestamps (null unless profiling).
struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};
  bool is_draft{false};  // its launches are recorded as a draft head's
  operator cudaStream_t() const { return handle; }
};

// Returns the most shared memory that a CTA may have on the calling thread's GPU, in bytes.
size_t device_shared_bytes();

// Returns where the next launch in the stream writes its timestamps.
Timestamps timestamps_of_next(const Stream& stream, const Label& label);

}  // namespace nibble::cuda
