#include "core/system/available_bytes.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "core/system/cgroup.h"

namespace nibble {

size_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  return std::min(available_bytes(meminfo), cgroup_memory_left(own_cgroup()).value_or(SIZE_MAX));
}

size_t available_bytes(std::istream& meminfo) {
  std::string field;
  for (size_t kibibytes = 0; meminfo >> field;) {
    if (field == "MemAvailable:" && meminfo >> kibibytes) return kibibytes << 10;
  }
  return SIZE_MAX;  // unknown (not Linux): an allocation that is too large fails later
}

}  // namespace nibble
