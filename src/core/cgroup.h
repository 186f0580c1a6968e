// Limits of the control group (version 2) that this process runs in, as containers and services set them. The
// limits of all parent groups apply too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace nibble {

// Folder in which Linux shows the groups (tests use another one), and the group of this process in it.
struct CgroupPlace {
  std::filesystem::path root, own;
};
CgroupPlace own_cgroup();

// The CPU time that the quota allows, in cores (cpu.max); nullopt: no quota.
std::optional<double> cpu_quota(const CgroupPlace& place);

// The whole cores of the quota, at least 1 and at most `num_cores`. Rounds down: Linux would pause surplus
// threads in turn, and a loop over all threads waits for the slowest.
int cores_within(int num_cores, std::optional<double> quota);

// Bytes left below the memory limit (memory.max); nullopt: no limit. Page cache counts as free: it can be
// reclaimed.
std::optional<size_t> cgroup_memory_left(const CgroupPlace& place);

}  // namespace nibble
