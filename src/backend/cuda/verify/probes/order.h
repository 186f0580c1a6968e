// PDL probe: a slow writer, and a reader launched to start before the writer ends (pdl.cuh).
#pragma once

#include "backend/cuda/chip/target.h"

namespace nibble::cuda::verify {

inline constexpr int kOrderCells{8 * 128};  // CTAs * threads

struct OrderArgs {
  uint32_t* cells;                // [kOrderCells]
  uint32_t round;                 // what the writer stores after a few microseconds
  unsigned long long* num_stale;  // counts cells in which the reader found another value
};
void write_late(const LaunchContext& gpu, const OrderArgs& args);
// `waits`: true, as kernels must; without waiting the reader should find the old value.
void read_behind(const LaunchContext& gpu, const OrderArgs& args, bool waits);

}  // namespace nibble::cuda::verify
