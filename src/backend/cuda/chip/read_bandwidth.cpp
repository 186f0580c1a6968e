// Measures how fast the GPU's memory is read.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernels.h"

namespace nibble::cuda {

double read_bandwidth() {
  constexpr size_t kBytes{size_t{2} << 30};
  constexpr int kPasses{10};
  const OwnedStream stream;
  const DeviceBuffer bytes(kBytes), sum(sizeof(uint32_t));
  check(cudaMemsetAsync(bytes.as<void>(), 1, kBytes, stream), "measuring its memory");
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "making an event");
  check(cudaEventCreate(&end), "making an event");
  float best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    check(cudaEventRecord(start, stream), "measuring its memory");
    read_all(stream, device_caps().num_multiprocessors,
             {bytes.as<uint4>(), kBytes / sizeof(uint4), sum.as<uint32_t>()});
    check(cudaEventRecord(end, stream), "measuring its memory");
    stream.wait();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end), "measuring its memory");
    best = pass == 0 ? milliseconds : std::min(best, milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return static_cast<double>(kBytes) / best * 1e3;
}

}  // namespace nibble::cuda
