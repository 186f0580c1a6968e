// The twin of ptx/barrier.cuh. A phase ends with its last arrival; its bytes are there by then, because a
// copy is done as soon as it is issued.
#pragma once

#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

struct BarrierTwin {
  uint16_t num_expected, num_missing;
  uint32_t phase;
};
inline BarrierTwin& barrier_at(uint32_t barrier) {
  return *reinterpret_cast<BarrierTwin*>(emulated::shared_memory.bytes + barrier);
}
inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(static_cast<const uint8_t*>(shared) - emulated::shared_memory.bytes);
}
inline void init_barrier(uint32_t barrier, unsigned arrivals) {
  const auto count = static_cast<uint16_t>(arrivals);
  barrier_at(barrier) = {count, count, 0};
}
inline void fence_barrier_init() {}
inline void arrive(uint32_t barrier) {
  BarrierTwin& twin = barrier_at(barrier);
  if (--twin.num_missing > 0) return;
  twin.num_missing = twin.num_expected;
  ++twin.phase;
}
inline void arrive_after_copies(uint32_t barrier) { arrive(barrier); }
inline bool has_ended(uint32_t barrier, uint32_t parity) { return barrier_at(barrier).phase % 2 != parity; }
inline void wait(uint32_t barrier, uint32_t parity) {
  while (!has_ended(barrier, parity)) emulated::yield();
}
inline void sync_warps(int barrier, int num_threads) { emulated::sync_some(barrier, num_threads); }

}  // namespace nibble::cuda
