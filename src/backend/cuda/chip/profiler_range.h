// Ranges on the timelines of profilers (NVTX), such as Nsight Systems. Without a profiler, a range costs one
// comparison.
#pragma once

#include <string>

namespace nibble::cuda {

// Returns whether a profiler records ranges in this process.
bool has_profiler();

// A named range on the calling thread's timeline, in the NVTX domain "nibble": it lasts from construction to
// destruction. The profiler assigns the kernels that the thread launches meanwhile to the range.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  explicit ProfilerRange(const std::string& name) : ProfilerRange(name.c_str()) {}
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
  ~ProfilerRange();
};

}  // namespace nibble::cuda
