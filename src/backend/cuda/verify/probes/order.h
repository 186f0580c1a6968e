// Kernels of the PDL probe: a slow writer, and a reader launched to start before the writer ends (pdl.cuh).
#pragma once

#include "backend/cuda/chip/target.h"

namespace nibble::cuda::verify {

inline constexpr int kOrderCells{8 * 128};  // CTAs * threads: one cell per thread

struct OrderArgs {
  uint32_t* cells;                // [kOrderCells]: thread n writes and reads word n
  uint32_t round;                 // the number that the writer stores in each cell, after a few microseconds
  unsigned long long* num_stale;  // cells in which the reader found another number
};
void write_late(const LaunchContext& gpu, const OrderArgs& args);
// `waits`: true as in all kernels. False: the reader does not wait, and should find old values.
void read_behind(const LaunchContext& gpu, const OrderArgs& args, bool waits);

}  // namespace nibble::cuda::verify
