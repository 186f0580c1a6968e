// What the benchmarks share: all cores, bytes that are in no cache, and the bandwidth that their figures are shares of.
#pragma once

#include "core/read_bandwidth.h"

namespace nibble::bench {

inline ThreadPool& all_cores() {
  static ThreadPool pool(0);
  return pool;
}

inline const Buffer& cold_bytes() {
  static const Buffer buffer = make_cold_bytes(all_cores());
  return buffer;
}

// Measured beside each figure that is given as a share of it.
inline double measured_bandwidth() { return read_bandwidth(all_cores(), cold_bytes()); }

}  // namespace nibble::bench
