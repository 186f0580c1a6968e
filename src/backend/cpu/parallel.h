// Work shared out over cores. Each item is computed wholly by one thread, so that neither their number nor who takes what
// changes a bit.
#pragma once

#include <cstddef>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace nibble::cpu {

// Below this many multiply-adds a loop runs on the calling thread: waking the others and waiting for the last costs about
// as much as they would save (bench/cpu_kernels_bench.cpp measures both).
inline constexpr double kParallelWork{100e3};

// All cores that the process may use, or one without OpenMP.
inline int default_num_threads() {
#ifdef _OPENMP
  return omp_get_num_procs();
#else
  return 1;
#endif
}

// body(item, thread) for every item < num_items; thread < num_threads. `work`: multiply-adds of all items together.
// Items are taken one by one as threads come free: cores may be of two kinds, or busy with something else.
template <typename Body>
void for_each(int num_threads, ptrdiff_t num_items, double work, const Body& body) {
#ifdef _OPENMP
  if (num_threads > 1 && num_items > 1 && work > kParallelWork) {
#pragma omp parallel for schedule(dynamic) num_threads(num_threads)
    for (ptrdiff_t item = 0; item < num_items; ++item) body(item, omp_get_thread_num());
    return;
  }
#else
  static_cast<void>(num_threads);
  static_cast<void>(work);
#endif
  for (ptrdiff_t item = 0; item < num_items; ++item) body(item, 0);
}

}  // namespace nibble::cpu
