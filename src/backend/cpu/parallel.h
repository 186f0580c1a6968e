// Work shared out over cores. Each item is computed wholly by one thread, so that neither their number nor who takes what
// changes a bit.
#pragma once

#include <cstddef>

#include "core/thread_pool.h"

namespace nibble::cpu {

// Below this many multiply-adds a loop runs on the calling thread: waking the others costs about as much as they would
// save (bench/cpu_kernels_bench.cpp: hand_over).
inline constexpr double kParallelWork{100e3};

// body(item, thread) for every item < num_items. `work`: multiply-adds of all items together. Items are taken one by one
// as threads come free: cores may be of two kinds, or busy with something else.
template <typename Body>
void for_each(ThreadPool& pool, ptrdiff_t num_items, double work, const Body& body) {
  if (work > kParallelWork) return pool.for_each(num_items, body);
  for (ptrdiff_t item = 0; item < num_items; ++item) body(item, 0);
}

}  // namespace nibble::cpu
