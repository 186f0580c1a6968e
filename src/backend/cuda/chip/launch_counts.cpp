#include "backend/cuda/chip/launch_counts.h"

#include <algorithm>

namespace nibble::cuda {

void LaunchCounts::raise(const char* kernel, size_t by) {
  for (Entry& entry : entries_)
    if (entry.kernel == kernel) {
      entry.count += by;
      return;
    }
  entries_.push_back({kernel, by});
}

void LaunchCounts::add(const LaunchCounts& others) {
  for (const Entry& entry : others.entries_) raise(entry.kernel, entry.count);
}

// Entries are only appended, so the first entries of this object are those of `earlier`, in the same order.
LaunchCounts LaunchCounts::since(const LaunchCounts& earlier) const {
  LaunchCounts difference = *this;
  for (size_t i = 0; i < earlier.entries_.size(); ++i)
    difference.entries_[i].count -= earlier.entries_[i].count;
  std::erase_if(difference.entries_, [](const Entry& entry) { return entry.count == 0; });
  return difference;
}

std::vector<KernelLaunches> LaunchCounts::by_kernel() const {
  std::vector<KernelLaunches> kernels;
  kernels.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    const auto known = std::find_if(kernels.begin(), kernels.end(),
                                    [&](const KernelLaunches& of) { return of.kernel == entry.kernel; });
    if (known == kernels.end())
      kernels.push_back({entry.kernel, entry.count});
    else
      known->count += entry.count;
  }
  return kernels;
}

}  // namespace nibble::cuda
