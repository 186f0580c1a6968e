// This machine, for records of measurements, and its limit of open files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backend/device_facts.h"

namespace nibble {

// A fact that the machine does not tell is not set: a virtual one hides its clocks.
struct Machine {
  std::string cpu;
  int num_cores{0};  // that this process may use
  std::optional<size_t> memory_bytes;
  std::optional<size_t> cache_bytes;  // last level, of all cores together
  std::optional<int> cpu_mhz, highest_cpu_mhz;
  std::optional<DeviceFacts> device;  // not set: the backend runs on the cores

  // The last cache before the memory that the backend decodes from.
  std::optional<size_t> backend_cache_bytes() const { return device ? device->cache_bytes : cache_bytes; }
};
Machine describe_machine(std::optional<DeviceFacts> device);

std::string cpu_name();  // "AMD EPYC 9754"; the architecture where the kernel tells no name

// Raises the limit of open files, usually 1024, to the most that the system grants: each connection is one.
void allow_open_files();

}  // namespace nibble
