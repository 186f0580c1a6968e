// The GPU of the calling thread: the first, unless the thread selects another (ranks/cards.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

std::string why_no_device();  // one line; empty if a GPU is usable

const DeviceCaps& device_caps();  // properties of the calling thread's GPU, queried once
// GPU memory that is free now. Queries the driver each time: for planning, not for launches. A GPU that
// shares the host's memory has what the host has available; its driver counts the page cache as used.
size_t free_device_bytes(const DeviceCaps& caps);

// Copies to or fills GPU memory and waits until the bytes have arrived: cudaMemcpy and cudaMemset may return
// earlier, and this program's streams do not wait for them. `what` describes the operation in an error.
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
