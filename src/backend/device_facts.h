// Identity and state of a backend's device, for records of measurements.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace nibble {

// Facts that neither the device nor its driver reports are not set.
struct DeviceFacts {
  std::string name{};
  std::optional<std::string> uuid{};    // as nvidia-smi -L prints it: "GPU-3c3ff0f1-4f0a-..."
  std::optional<std::string> driver{};  // "580.159.04"
  std::optional<int> num_multiprocessors{};
  std::optional<size_t> memory_bytes{}, cache_bytes{};  // cache_bytes: of the L2 cache
  std::optional<int> core_mhz{}, highest_core_mhz{}, memory_mhz{}, highest_memory_mhz{};
  std::optional<double> power_watts{}, power_limit_watts{};
  std::optional<int> temperature_celsius{};
};

}  // namespace nibble
