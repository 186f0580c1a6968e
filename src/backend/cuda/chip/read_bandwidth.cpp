#include "backend/cuda/chip/read_bandwidth.h"

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/read_memory.h"
#include "backend/cuda/chip/stream_timer.h"

namespace nibble::cuda {

double read_bandwidth() {
  constexpr size_t kBytes{size_t{2} << 30};
  constexpr int kPasses{10};
  const OwnedStream stream;
  const DeviceBuffer bytes(kBytes), sum(sizeof(uint32_t));
  check(cudaMemsetAsync(bytes.as<void>(), 1, kBytes, stream), "measuring its memory");
  const float best = StreamTimer(stream).least_milliseconds(kPasses, "measuring its memory", [&] {
    read_all(stream, device_caps().num_multiprocessors,
             {bytes.as<uint4>(), kBytes / sizeof(uint4), sum.as<uint32_t>()});
  });
  return static_cast<double>(kBytes) / best * 1e3;
}

}  // namespace nibble::cuda
