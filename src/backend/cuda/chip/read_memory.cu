#include "backend/cuda/chip/read_memory.h"

#include "backend/cuda/chip/run_kernel.cuh"

namespace nibble::cuda {
namespace {

__global__ void __launch_bounds__(1024) read_kernel(const __grid_constant__ ReadArgs args) {
  constexpr int kAhead{4};
  const size_t stride = size_t{1} * gridDim.x * blockDim.x;
  uint32_t sum = 0;
  for (size_t i = size_t{1} * blockIdx.x * blockDim.x + threadIdx.x; i < args.count; i += kAhead * stride) {
    uint4 values[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
      values[ahead] =
          i + ahead * stride < args.count ? __ldcs(args.from + i + ahead * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
      sum += values[ahead].x ^ values[ahead].y ^ values[ahead].z ^ values[ahead].w;
  }
  if (sum == 0x12345678u) *args.sum = sum;  // hardly ever true, but the compiler must keep the loads
}

}  // namespace

void read_all(Stream stream, int num_multiprocessors, const ReadArgs& args) {
  run_kernel(stream, "reading its memory", read_kernel,
             {static_cast<unsigned>(num_multiprocessors * 2), 1024}, args);
}

}  // namespace nibble::cuda
