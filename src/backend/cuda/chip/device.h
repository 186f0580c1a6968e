// The GPU of the calling thread, the first one unless the thread selects another (ranks/cards.h): properties
// and streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

// Returns, in one line, why no GPU is usable; empty if one is.
std::string why_no_device();

// Returns the properties of the calling thread's GPU, which are queried once per GPU.
const DeviceCaps& device_caps();
// Returns the memory that is free now. It queries the driver each time, so it is for planning, not for
// launches. On a GPU that shares the host's memory it returns what the host has available: there the driver
// counts the page cache as used.
size_t free_device_bytes(const DeviceCaps& caps);

// Copies or fills, and returns once the bytes are in the GPU's memory: cudaMemcpy and cudaMemset may return
// before that, and this program's streams do not wait for either. `what` describes the operation in an error.
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
