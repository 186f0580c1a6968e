// The one GPU: its properties, its memory, its stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/recorder.h"

namespace nibble::cuda {

// Where launches go, and who records when they ran, if anybody does.
struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};
  operator cudaStream_t() const { return handle; }
};

// Why there is no GPU to use, in a line; empty where there is one.
std::string why_no_device();

struct DeviceInfo {
  std::string name;
  int num_multiprocessors{0};
  int compute_capability{0};  // 90: sm_90
  size_t total_bytes{0}, free_bytes{0};
  size_t max_shared_bytes{0};  // of a block
};
DeviceInfo device_info();
bool has_dependent_launch();  // sm_90 and later

class OwnedStream {
 public:
  OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream();
  operator cudaStream_t() const { return stream_.handle; }
  operator Stream() const { return stream_; }
  void record(Recorder* recorder) { stream_.recorder = recorder; }  // null: nobody
  void wait() const;                                                // until all that was put into it is done

 private:
  Stream stream_;
};

}  // namespace nibble::cuda
