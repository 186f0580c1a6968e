// The GPU (one, the first that is visible): properties and streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/recorder.h"

namespace nibble::cuda {

// A CUDA stream, and the recorder of its launches' timestamps; null where nobody profiles.
struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};
  operator cudaStream_t() const { return handle; }
};

// The reason why there is no usable GPU, in one line; empty where there is one.
std::string why_no_device();

struct DeviceInfo {
  std::string name;
  int num_multiprocessors{0};
  int compute_capability{0};  // 90: sm_90
  size_t total_bytes{0};
  size_t max_shared_bytes{0};  // per CTA, with opt-in
};
// The driver is asked once: launches read this.
const DeviceInfo& device_info();
// Memory that is free at this moment. The driver is asked each time, so this is for planning, not for launches.
size_t free_device_bytes();
bool has_dependent_launch();  // sm_90 and later

class OwnedStream {
 public:
  OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream();
  operator cudaStream_t() const { return stream_.handle; }
  operator Stream() const { return stream_; }
  void record(Recorder* recorder) { stream_.recorder = recorder; }  // null: stops recording
  void wait() const;  // blocks until all work in the stream is done

 private:
  Stream stream_;
};

}  // namespace nibble::cuda
