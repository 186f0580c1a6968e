// A writer that is late and a reader that was launched to begin before it ends (pdl.cuh).
#pragma once

#include "backend/cuda/chip/target.h"

namespace nibble::cuda::verify {

inline constexpr int kOrderCells{8 * 128};  // CTAs times threads

struct OrderArgs {
  uint32_t* cells;                // [kOrderCells]
  uint32_t round;                 // what the writer writes, when a few microseconds have passed
  unsigned long long* num_stale;  // counts cells in which the reader found something else
};
void write_late(const LaunchContext& gpu, const OrderArgs& args);
// waits: as kernels have to; otherwise it reads without waiting, and should find what was there before.
void read_behind(const LaunchContext& gpu, const OrderArgs& args, bool waits);

}  // namespace nibble::cuda::verify
