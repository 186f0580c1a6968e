// Simulates a slower memory for the rings of weights: the time that a chip with less bandwidth would take is
// then measured with the kernels' own waits, barriers and tails. Only in a build with -DNIBBLE_PACE=GB_PER_S
// (docs/gpu.md); otherwise the class is empty.
//
// A ring that requests bytes reserves time on the bus after all earlier reservations. The bytes count as
// arrived at the end of that time plus the latency. Loads outside the rings (activations, the KV cache) are
// not paced.
#pragma once

#include <cstdint>

#include "backend/cuda/chip/pace.h"
#include "backend/cuda/ptx/registers.cuh"

namespace nibble::cuda {

#ifdef NIBBLE_PACE
template <int slots>
class Pace {
 public:
  __device__ explicit Pace(Bus bus) : bus_(bus) {}
  // Called by a whole warp.
  __device__ void ask(int slot, int num_bytes) {
    if (threadIdx.x % 32 != 0) return;
    const unsigned long long now = bus_time_ns() << 10,
                             cost = num_bytes * 1024ull / (NIBBLE_PACE);  // 1 GB/s is 1 byte per ns
    atomicMax(bus_.clock, now);
    const unsigned long long due = ((atomicAdd(bus_.clock, cost) + cost) >> 10) + kLatencyNs;
#pragma unroll
    for (int i = 0; i < slots; ++i)
      if (i == slot) due_[i] = due;
  }
  __device__ void wait(int slot) const {
    if (threadIdx.x % 32 == 0) {
      unsigned long long due = 0;
#pragma unroll
      for (int i = 0; i < slots; ++i)
        if (i == slot) due = due_[i];
      while (bus_time_ns() < due) {
      }
    }
    __syncwarp();
  }

 private:
  static constexpr unsigned long long kLatencyNs{490};  // GB10's 970 clocks, at the clock of an H200

  // Wraps around after five hours: the fractions of the bus's clock take 10 more bits.
  static __device__ unsigned long long bus_time_ns() { return now_ns() & ((1ull << 44) - 1); }

  Bus bus_;
  unsigned long long due_[slots];  // in the first lane: the time at which a slot counts as full
};
#else
template <int slots>
class Pace {
 public:
  __device__ explicit Pace(Bus) {}
  __device__ void ask(int, int) {}
  __device__ void wait(int) const {}
};
#endif

}  // namespace nibble::cuda
