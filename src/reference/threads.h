// Distributes loops over threads. One thread computes a whole item, so results do not depend on the number of
// threads.
#pragma once

#include <cstddef>

#include "core/threads/thread_pool.h"

namespace nibble::reference {

// Loops with fewer products (about 0.3 ms) run on the calling thread: waking other threads takes longer.
inline constexpr ptrdiff_t kProductsWorthThreads{1 << 20};

// Calls body(item, thread) for each item. Without a pool everything runs on the calling thread, as thread 0.
template <typename Body>
void for_each(ThreadPool* pool, ptrdiff_t num_items, ptrdiff_t num_products, const Body& body) {
  if (pool && num_products >= kProductsWorthThreads) return pool->for_each(num_items, body);
  for (ptrdiff_t item = 0; item < num_items; ++item) body(item, 0);
}

}  // namespace nibble::reference
