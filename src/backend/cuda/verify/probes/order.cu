#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/verify/probes/order.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kThreads{128}, kCtas{kOrderCells / kThreads};

__device__ unsigned cell() { return blockIdx.x * kThreads + threadIdx.x; }

__global__ void write_kernel(const OrderArgs args, Timestamps timestamps) {
  constexpr long long kClocks{6000};  // about 3 us, in which the reader starts
  wait_for_predecessor(timestamps);
  let_successor_start();
  const long long start = clock64();
  while (clock64() - start < kClocks) {
  }
  args.cells[cell()] = args.round;
}

// The reader uses an ordinary load. Neither compiler nor hardware may move the load before the wait. `waits`:
// whether the reader waits before the load; if false, it waits afterwards.
template <bool waits>
__global__ void read_kernel(const OrderArgs args, Timestamps timestamps) {
  if constexpr (waits) wait_for_predecessor(timestamps);
  const uint32_t found = args.cells[cell()];
  if (found != args.round) atomicAdd(args.num_stale, 1ull);
  if constexpr (!waits) wait_for_predecessor(timestamps);
  let_successor_start();
}

}  // namespace

void write_late(const LaunchContext& gpu, const OrderArgs& args) {
  launch(gpu, {Operation::kEmbed, "write_late"}, write_kernel, {dim3(kCtas), kThreads}, args);
}

void read_behind(const LaunchContext& gpu, const OrderArgs& args, bool waits) {
  launch(gpu, {Operation::kEmbed, "read_behind"}, waits ? read_kernel<true> : read_kernel<false>,
         {dim3(kCtas), kThreads}, args);
}

}  // namespace nibble::cuda::verify
