// Functions for the GPU that the calling thread has selected (ranks/cards.h), or for the first GPU if the
// thread has selected none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/launch_counts.h"
#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

std::string why_no_device();  // returns one line that says why no GPU is usable; empty if a GPU is usable

const DeviceCaps& device_caps();  // returns properties of the thread's GPU; queries the driver once per GPU
// Returns the free GPU memory now. Do not call free_device_bytes() in each step: a query of the driver is too
// slow. If host and GPU share memory, returns the host's available memory, because the driver counts the page
// cache as used.
size_t free_device_bytes(const DeviceCaps& caps);

// copy_to_device() copies bytes to GPU memory. fill_on_device() sets each byte of a range of GPU memory to
// `byte`. Both functions return when the bytes have arrived. cudaMemcpy and cudaMemset alone may return
// earlier, and work in nibble's streams, which are non-blocking, would not wait for the bytes.
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
  void wait() const;  // blocks until the stream has finished all its work
  // Returns how often kernels were launched in this stream. The counts can be changed: StepGraph subtracts
  // the launches that it only captures, and adds those of each replay.
  LaunchCounts& counts() const { return *stream_.counts; }

 private:
  LaunchCounts counts_;
  Stream stream_;
};

}  // namespace nibble::cuda
