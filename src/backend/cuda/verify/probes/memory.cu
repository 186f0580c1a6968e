#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/verify/probes/memory.h"

namespace nibble::cuda::verify {
namespace {

constexpr StreamWarps kReaders{16, 2};
using BandwidthRing = Ring<Layout::kBf16, kReaders.slots>;
constexpr int kSlotBytes{slot_bytes(Layout::kBf16)};

// Each CTA reads a contiguous range of slots (pieces of kSlotBytes in global memory), and its warps take
// these slots in turn. Kernels that stream a matrix read it in the same order.
__global__ void __launch_bounds__(32 * kReaders.warps, 1) read_kernel(const RingReadArgs args) {
  extern __shared__ __align__(128) uint8_t rings[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto share = [&](unsigned cta) { return static_cast<int>(1ll * args.num_slots * cta / gridDim.x); };
  const int last = share(blockIdx.x + 1);
  BandwidthRing ring(rings + warp * warp_ring_bytes(Layout::kBf16, kReaders.slots), threadIdx.x % 32);
  int to_prefetch = share(blockIdx.x) + warp;
  const auto prefetch = [&] {
    if (to_prefetch < last) ring.prefetch(args.from + size_t{1} * to_prefetch * kSlotBytes, kSlotBytes);
    to_prefetch += kReaders.warps;
  };
  for (int slot = 0; slot < kReaders.slots; ++slot) prefetch();
  uint32_t sum = 0;
  for (int slot = share(blockIdx.x) + warp; slot < last; slot += kReaders.warps) {
    const uint32_t from = ring.next();
#pragma unroll
    for (int i = lane; i < kSlotBytes / 16; i += 32) {
      const uint4 words = load_shared_16(from + i * 16);
      sum += words.x ^ words.y ^ words.z ^ words.w;
    }
    __syncwarp();
    prefetch();
  }
  atomicAdd(args.sum, sum);
}

__global__ void touch_kernel(size_t bytes, uint32_t* last) {
  extern __shared__ uint32_t words[];
  const size_t at = bytes / sizeof(uint32_t) - 1 - threadIdx.x;
  words[at] = threadIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 0) *last = words[at];
}

}  // namespace

size_t ring_slot_bytes() { return kSlotBytes; }

void read_through_rings(Stream stream, const RingReadArgs& args) {
  constexpr size_t kBytes{ring_bytes(Layout::kBf16, kReaders)};
  allow_shared_bytes(read_kernel, kBytes);
  read_kernel<<<static_cast<unsigned>(device_caps().num_multiprocessors), 32 * kReaders.warps, kBytes,
                stream>>>(args);
  check(cudaGetLastError(), "reading through rings");
}

void touch_shared_memory(Stream stream, size_t bytes, uint32_t* last) {
  allow_shared_bytes(touch_kernel, bytes);
  touch_kernel<<<1, 32, bytes, stream>>>(bytes, last);
  check(cudaGetLastError(), "allocating its shared memory");
}

}  // namespace nibble::cuda::verify
