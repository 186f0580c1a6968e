// Timestamps of a step's launches, for profile(). Recording costs other launches only one comparison.
#pragma once

#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/stream.h"
#include "backend/timed_work.h"

namespace nibble::cuda {

class Recorder {
 public:
  Recorder();
  // Reserves timestamps for the next launch. `is_draft`: see TimedWork.
  Timestamps next(const Label& label, bool is_draft);
  void clear(cudaStream_t stream);      // resets all timestamps; call it before the launches run
  std::vector<TimedWork> read() const;  // in the order of launches; call it after all have run

 private:
  static constexpr size_t kMaxLaunches{4096};
  struct Launch {
    Label label;
    bool is_draft;
  };
  std::vector<Launch> launches_;
  DeviceBuffer times_;  // [3, kMaxLaunches]: begin, middle and end of each launch, in nanoseconds
};

}  // namespace nibble::cuda
