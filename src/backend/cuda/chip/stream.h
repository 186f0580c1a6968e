// A stream of launches, and where a launch writes its timestamps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

class Recorder;

// Addresses of a launch's timestamps, in nanoseconds of the device's clock; null: not recorded. `begin`: when
// its first CTA could begin. `end`: when its last CTA had finished. `middle`: when its last CTA had finished
// routing, in a launch that also multiplies experts.
struct Timestamps {
  unsigned long long *begin{nullptr}, *middle{nullptr}, *end{nullptr};
};

// Names a launch in profiles. `first_operation` and `first_name`: its work before `middle`.
struct Label {
  Operation operation;
  const char* name;
  Operation first_operation{};
  const char* first_name{nullptr};
};

struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};  // where launches store their timestamps; null unless profiling
  bool is_draft{false};         // true: profiles count the launches as a draft head's
  operator cudaStream_t() const { return handle; }
};

size_t device_shared_bytes();  // most shared memory of a CTA on the calling thread's GPU

Timestamps timestamps_of_next(const Stream& stream, const Label& label);

}  // namespace nibble::cuda
