// A stream of launches, and where a launch writes its timestamps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

class Recorder;

// Addresses of a launch's timestamps, in nanoseconds of the device's clock; null: not recorded. `begin`: when
// its first CTA could begin. `end`: when its last CTA was done. `middle`, only with routing before experts:
// when its last CTA was done with routing.
struct Timestamps {
  unsigned long long *begin{nullptr}, *middle{nullptr}, *end{nullptr};
};

// `first_operation` and `first_name`: of the launch's part before the middle timestamp, if it has one.
struct Label {
  Operation operation;
  const char* name;
  Operation first_operation{};
  const char* first_name{nullptr};
};

struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};  // null unless profiling
  bool is_draft{false};         // record its launches as a draft head's
  operator cudaStream_t() const { return handle; }
};

size_t device_shared_bytes();  // the most that a CTA may have on the calling thread's GPU

Timestamps timestamps_of_next(const Stream& stream, const Label& label);

}  // namespace nibble::cuda
