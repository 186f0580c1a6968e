// Timestamps of a step's launches, for profile(). Kernels write them to device memory; a launch that is not
// recorded costs one comparison.
#pragma once

#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/timed_work.h"

namespace nibble::cuda {

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

class Recorder {
 public:
  Recorder();
  // Reserves the timestamps of the next launch. `is_draft`: see TimedWork.
  Timestamps next(const Label& label, bool is_draft);
  // Resets all timestamps. Must be called before the launches run.
  void clear(cudaStream_t stream);
  // Reads the timestamps in launch order, after all have run.
  std::vector<TimedWork> read() const;

 private:
  static constexpr size_t kMaxLaunches{4096};  // per step
  struct Launch {
    Label label;
    bool is_draft;
  };
  std::vector<Launch> launches_;
  DeviceBuffer times_;  // [3, kMaxLaunches]: Timestamps
};

}  // namespace nibble::cuda
