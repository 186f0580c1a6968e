// Distributes work over cores. One thread computes each item as a whole, so neither the number of threads nor
// the assignment of items changes a bit.
#pragma once

#include <cstddef>

#include "core/thread_pool.h"

namespace nibble::cpu {

// Multiply-adds below which a loop runs on the calling thread: waking the others costs about what they would
// save (bench/cpu_kernels_bench.cpp: hand_over).
inline constexpr double kParallelWork{100e3};

// Calls body(item, thread) for every item < num_items. `work` is the number of multiply-adds of all items.
// Threads take items one by one, because cores may be of two kinds or busy with other work.
template <typename Body>
void for_each(ThreadPool& pool, ptrdiff_t num_items, double work, const Body& body) {
  if (work > kParallelWork) return pool.for_each(num_items, body);
  for (ptrdiff_t item = 0; item < num_items; ++item) body(item, 0);
}

}  // namespace nibble::cpu
