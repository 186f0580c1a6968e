// Kernels of the PDL probe: a slow writer, and a reader that starts before the writer ends (pdl.cuh).
#pragma once

#include "backend/cuda/chip/target.h"

namespace nibble::cuda::verify {

inline constexpr int kOrderCells{8 * 128};  // CTAs * threads: one cell per thread

struct OrderArgs {
  uint32_t* cells;                // [kOrderCells]: thread n writes and reads cell n
  uint32_t round;                 // number that the writer stores in each cell after 3 us
  unsigned long long* num_stale;  // number of cells in which the reader did not find `round`
};
void write_late(const LaunchContext& gpu, const OrderArgs& args);
// Launches the reader. `waits`: whether it waits for the writer, as all kernels do. If false, the reader
// should find old numbers.
void read_behind(const LaunchContext& gpu, const OrderArgs& args, bool waits);

}  // namespace nibble::cuda::verify
