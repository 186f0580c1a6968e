// The GPU that the calling thread uses, the first one unless it says another (ranks/cards.h): properties and streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/step/recorder.h"

namespace nibble::cuda {

// A CUDA stream, and the recorder of its launches' timestamps; null where nobody profiles.
struct Stream {
  cudaStream_t handle{nullptr};
  Recorder* recorder{nullptr};
  bool is_draft{false};  // what is launched is recorded as a draft head's
  operator cudaStream_t() const { return handle; }
};

// The reason why there is no usable GPU, in one line; empty where there is one.
std::string why_no_device();

// That GPU. The driver is asked once for each.
const DeviceCaps& device_caps();
// Memory that is free at this moment: the driver is asked each time, so this is for planning, not for launches. On a GPU that shares
// the host's memory it is what the host has available: there the driver calls the page cache taken.
size_t free_device_bytes(const DeviceCaps& caps);

// Returns when the bytes are in the GPU's memory: cudaMemcpy and cudaMemset may return before that, and the streams of this program wait for
// neither. `what` is what an error says was being done.
void copy_to_device(void* to, const void* from, size_t bytes, const char* what);
void fill_on_device(void* to, int byte, size_t bytes, const char* what);

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
