#include "core/system/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Returns the folders of the process's control group and of all its parents, from the root on. In a container
// the root is the container's group.
std::vector<fs::path> groups_of(const CgroupPlace& place) {
  std::vector<fs::path> groups{place.root};
  for (const fs::path& part : place.own.relative_path()) groups.push_back(groups.back() / part);
  return groups;
}

std::optional<size_t> first_number(const fs::path& file) {
  std::ifstream text(file);
  size_t number{0};
  return text >> number ? std::optional(number) : std::nullopt;  // "max": no limit
}

// Returns the bytes that memory.current counts but the kernel can reclaim: page cache, such as the model's
// mapped files.
size_t reclaimable_bytes(const fs::path& group) {
  std::ifstream stat(group / "memory.stat");
  size_t sum = 0, number = 0;
  for (std::string name; stat >> name >> number;)
    if (name == "inactive_file" || name == "active_file") sum += number;
  return sum;
}

}  // namespace

CgroupPlace own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::")) return {"/sys/fs/cgroup", line.substr(3)};  // the entry of cgroup version 2
  return {"/sys/fs/cgroup", {}};
}

std::optional<double> cpu_quota(const CgroupPlace& place) {
  std::optional<double> least;
  for (const fs::path& group : groups_of(place)) {
    std::ifstream text(group / "cpu.max");
    double quota{0}, period{0};  // microseconds; the quota may be "max"
    if (!(text >> quota >> period) || quota <= 0 || period <= 0) continue;
    least = std::min(least.value_or(quota / period), quota / period);
  }
  return least;
}

int cores_within(int num_cores, std::optional<double> quota) {
  return quota ? std::clamp(static_cast<int>(std::min(*quota, 1e6)), 1, num_cores) : num_cores;
}

std::optional<size_t> cgroup_memory_left(const CgroupPlace& place) {
  std::optional<size_t> least;
  for (const fs::path& group : groups_of(place)) {
    const std::optional<size_t> limit = first_number(group / "memory.max");
    if (!limit) continue;
    const size_t current = first_number(group / "memory.current").value_or(0),
                 used = current - std::min(current, reclaimable_bytes(group)),
                 left = *limit - std::min(*limit, used);
    least = std::min(least.value_or(left), left);
  }
  return least;
}

}  // namespace nibble
