// Distributes loops over threads. One thread computes a whole item, so results do not depend on the number of
// threads. Once the step is given up, items that have not started are skipped, and long items end early. The
// results of these items are undefined.
#pragma once

#include <cstddef>

#include "backend/cpu/machine.h"

namespace nibble::cpu {

// Loops with at most this number of multiply-adds run on the calling thread: waking other threads would take
// as long as they save (bench/cpu_kernels_bench.cpp: hand_over).
inline constexpr double kParallelWork{100e3};

// Calls body(item, thread) for each item. `work`: number of multiply-adds in the whole loop. Threads take one
// item at a time, because cores may differ in speed.
template <typename Body>
void for_each(const Machine& machine, ptrdiff_t num_items, double work, const Body& body) {
  const auto run_item = [&](ptrdiff_t item, int thread) {
    if (!machine.is_stopped()) body(item, thread);
  };
  if (work > kParallelWork) return machine.pool.for_each(num_items, run_item);
  for (ptrdiff_t item = 0; item < num_items; ++item) run_item(item, 0);
}

}  // namespace nibble::cpu
