// When the launches of a step ran, for profile(): kernels leave it on the device, where it costs a comparison while nobody asks.
#pragma once

#include <vector>

#include "backend/cuda/owned_bytes.h"
#include "backend/timed_work.h"

namespace nibble::cuda {

// Of one launch, nanoseconds of the device's clock: when its first block could begin, and when its last one was done; between them,
// when its last block was done with routing, of a launch that goes on to experts. Null: nobody asks.
struct Mark {
  unsigned long long *begin{nullptr}, *middle{nullptr}, *end{nullptr};
};

// What a launch is for; `first`: what it does before Mark::middle, if it has one.
struct Label {
  StepPart part;
  const char* name;
  StepPart first_part{};
  const char* first_name{nullptr};
};

class Recorder {
 public:
  Recorder();
  // The mark of the next launch.
  Mark next(const Label& label);
  // Before the launches run.
  void clear(cudaStream_t stream);
  // After they did, in their order.
  std::vector<TimedWork> read() const;

 private:
  static constexpr size_t kMost{4096};  // launches of a step
  std::vector<Label> labels_;
  DeviceBuffer times_;  // [3, kMost]: Mark
};

}  // namespace nibble::cuda
