// The GPU of the calling thread: the first GPU, unless the thread selects another one (ranks/cards.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/launch_counts.h"
#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

std::string why_no_device();  // why no GPU is usable, in one line; empty: one is

const DeviceCaps& device_caps();  // properties of the calling thread's GPU; queried only once
// Returns the GPU memory that is free now. It queries the driver: use it for planning, not for launches. If
// host and GPU share memory, returns the host's available memory, because the driver counts the page cache as
// used.
size_t free_device_bytes(const DeviceCaps& caps);

// Copy to GPU memory, or fill it, and wait until the bytes have arrived. cudaMemcpy and cudaMemset may return
// earlier, and this program's streams do not wait for them. `what` names the operation in error messages.
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
  // Counts of the steps' launches in this stream. Capturing a graph changes them too (step/step_graph.h).
  LaunchCounts& counts() const { return *stream_.counts; }

 private:
  LaunchCounts counts_;
  Stream stream_;
};

}  // namespace nibble::cuda
