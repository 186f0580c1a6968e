// Distributes loops over threads. One thread computes a whole item, so results do not depend on the number of
// threads.
#pragma once

#include <cstddef>

#include "core/threads/thread_pool.h"

namespace nibble::cpu {

// Loops with at most this number of multiply-adds run on the calling thread: waking other threads would take
// as long as they save (bench/cpu_kernels_bench.cpp: hand_over).
inline constexpr double kParallelWork{100e3};

// Calls body(item, thread) for each item. `work`: number of multiply-adds in the whole loop. Threads take one
// item at a time, because cores may differ in speed.
template <typename Body>
void for_each(ThreadPool& pool, ptrdiff_t num_items, double work, const Body& body) {
  if (work > kParallelWork) return pool.for_each(num_items, body);
  for (ptrdiff_t item = 0; item < num_items; ++item) body(item, 0);
}

}  // namespace nibble::cpu
