// Timestamps of a step's launches, for Backend::profile(). A launch that is not recorded only compares the
// addresses of its timestamps with null.
#pragma once

#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/stream.h"
#include "backend/timed_work.h"

namespace nibble::cuda {

class Recorder {
 public:
  Recorder();
  // Returns addresses for the next launch's timestamps. `is_draft`: whether the launch belongs to the draft
  // head.
  Timestamps next(const Label& label, bool is_draft);
  void clear(cudaStream_t stream);      // resets all timestamps; call it before the recorded launches run
  std::vector<TimedWork> read() const;  // returns times in order of launches; call it once these have ended

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
