// Measures GPU time of work in a stream by CUDA events. The host's launch overhead is not included.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/device.h"

namespace nibble::cuda {

class OwnedEvent {
 public:
  explicit OwnedEvent(unsigned flags = cudaEventDefault) {
    check(cudaEventCreateWithFlags(&event_, flags), "creating an event");
  }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_{nullptr};
};

class StreamTimer {
 public:
  explicit StreamTimer(const OwnedStream& stream) : stream_(stream) {}

  // Returns the GPU time of the work that launch() enqueues. `what` says what the work does, for error
  // messages.
  template <typename Launch>
  float milliseconds(const char* what, const Launch& launch) const {
    check(cudaEventRecord(start_, stream_), what);
    launch();
    check(cudaEventRecord(end_, stream_), what);
    stream_.wait();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), what);
    return milliseconds;
  }
  template <typename Launch>
  float least_milliseconds(int num_passes, const char* what, const Launch& launch) const {
    float least = milliseconds(what, launch);
    for (int pass = 1; pass < num_passes; ++pass) least = std::min(least, milliseconds(what, launch));
    return least;
  }

 private:
  const OwnedStream& stream_;
  OwnedEvent start_, end_;
};

}  // namespace nibble::cuda
