// Counts the launches of each kernel on a stream, for metrics.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/kernel_launches.h"

namespace nibble::cuda {

class LaunchCounts {
 public:
  void count(const char* kernel) { raise(kernel, 1); }  // `kernel`: a string literal
  void add(const LaunchCounts& others);
  // Returns the launches counted since `earlier`, an earlier copy of this object.
  LaunchCounts since(const LaunchCounts& earlier) const;
  std::vector<KernelLaunches> by_kernel() const;

 private:
  void raise(const char* kernel, size_t by);

  struct Entry {
    const char* kernel;  // compared by address, so equal literals in two files can have two entries
    size_t count;
  };
  std::vector<Entry> entries_;  // kernels in the order of their first launches
};

}  // namespace nibble::cuda
