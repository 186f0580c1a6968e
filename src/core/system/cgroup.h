// Limits of the control group (version 2) that this process runs in, as containers and services set them. The
// limits of all parent groups apply too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace nibble {

// `root`: folder that contains the control groups, /sys/fs/cgroup except in tests. `own`: path of this
// process's group below `root`.
struct CgroupPlace {
  std::filesystem::path root, own;
};
CgroupPlace own_cgroup();

// Returns the CPU time that the group's quota allows (cpu.max), in cores; nullopt: no quota.
std::optional<double> cpu_quota(const CgroupPlace& place);

// Returns `quota` rounded down to whole cores, at least 1 and at most `num_cores`. If more threads run than
// the quota allows, Linux pauses them in turn, and a loop over all threads waits for the slowest.
int cores_within(int num_cores, std::optional<double> quota);

// Returns the bytes left below the group's memory limit (memory.max); nullopt: no limit. Page cache counts as
// free, because the kernel can reclaim it.
std::optional<size_t> cgroup_memory_left(const CgroupPlace& place);

}  // namespace nibble
