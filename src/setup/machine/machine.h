// Describes this machine for records, and raises its limit of open files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backend/device_facts.h"

namespace nibble {

// Values that the machine does not report are unset. For example, a virtual machine hides its clock rates.
struct Machine {
  std::string cpu;
  int num_cores{0};  // cores that this process may use
  std::optional<size_t> memory_bytes;
  std::optional<size_t> cache_bytes;  // size of the last-level caches of all cores together
  std::optional<int> cpu_mhz, highest_cpu_mhz;
  std::optional<DeviceFacts> device;  // nullopt: the backend runs on the CPU

  // Returns the size of the last-level cache of the GPU, or of the CPU if the backend runs there.
  std::optional<size_t> backend_cache_bytes() const { return device ? device->cache_bytes : cache_bytes; }
};
Machine describe_machine(std::optional<DeviceFacts> device);

std::string cpu_name();  // "AMD EPYC 9754"; the architecture if the kernel reports no name

// Raises the soft limit of open files, usually 1024, to the hard limit: each connection is an open file.
void allow_open_files();

}  // namespace nibble
