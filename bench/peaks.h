// Helpers for benchmarks: all cores, memory that is not cached, and the bandwidth that figures are compared
// with.
#pragma once

#include "core/memory/read_bandwidth.h"

namespace nibble::bench {

inline ThreadPool& all_cores() {
  static ThreadPool pool(0);
  return pool;
}

inline const Buffer& cold_bytes() {
  static const Buffer buffer = make_cold_bytes(all_cores());
  return buffer;
}

// Measured next to each figure that is reported as a share of it.
inline double measured_bandwidth() { return read_bandwidth(all_cores(), cold_bytes()); }

}  // namespace nibble::bench
