#include "backend/cuda/chip/launch_counts.h"

#include <algorithm>

namespace nibble::cuda {

void LaunchCounts::raise(const char* kernel, size_t by) {
  const auto known = std::ranges::find(entries_, kernel, &Entry::kernel);
  if (known == entries_.end())
    entries_.push_back({kernel, by});
  else
    known->count += by;
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
    const auto known = std::ranges::find(kernels, entry.kernel, &KernelLaunches::kernel);
    if (known == kernels.end())
      kernels.push_back({entry.kernel, entry.count});
    else
      known->count += entry.count;
  }
  return kernels;
}

}  // namespace nibble::cuda
