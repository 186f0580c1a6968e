// A CUDA stream, and the timestamps that recorded launches write.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

class LaunchCounts;
class Recorder;

// Addresses of a launch's timestamps, in nanoseconds of the GPU's clock; null if the launch is not recorded.
// `begin`: when the first CTA stopped waiting for earlier kernels. `end`: when the last CTA had finished.
// `middle`: only for a launch that computes both the router and experts_up, when the last CTA had finished
// routing.
struct Timestamps {
  unsigned long long *begin{nullptr}, *middle{nullptr}, *end{nullptr};
};

// A launch's name in profiles. If the launch has a timestamp `middle`, profiles show it as two entries, and
// the work before that time is called `first_operation` and `first_name`.
struct Label {
  Operation operation;
  const char* name;
  Operation first_operation{};
  const char* first_name{nullptr};
};

struct Stream {
  cudaStream_t handle{nullptr};
  LaunchCounts* counts{nullptr};  // null: launches are not counted
  Recorder* recorder{nullptr};    // where launches store timestamps; null unless profiling
  bool is_draft{false};           // whether profiles assign the launches to the draft head
  operator cudaStream_t() const { return handle; }
};

size_t device_shared_bytes();  // returns the largest shared memory of a CTA on the calling thread's GPU

// Counts a launch, and returns the addresses of its timestamps. Call it before each launch.
Timestamps register_launch(const Stream& stream, const Label& label);

}  // namespace nibble::cuda
