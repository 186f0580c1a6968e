// What this machine is, for records of measurements, and what it lets us have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backend/device_facts.h"

namespace nibble {

// What the machine does not tell (a virtual one hides clocks) is missing.
struct Machine {
  std::string cpu;
  int num_cores{0};  // that this process may use
  std::optional<size_t> memory_bytes;
  std::optional<size_t> cache_bytes;  // last level, of all cores together
  std::optional<int> cpu_mhz, highest_cpu_mhz;
  std::optional<DeviceFacts> device;  // what the backend runs on beside the cores

  // The last cache before the memory that the backend decodes from.
  std::optional<size_t> backend_cache_bytes() const { return device ? device->cache_bytes : cache_bytes; }
};
Machine describe_machine(std::optional<DeviceFacts> device);

std::string cpu_name();  // as it calls itself; its architecture where it has no name

// Each connection is an open file, and the usual limit (1024) is not the most that the system grants: from now on it is that.
void allow_open_files();

}  // namespace nibble
