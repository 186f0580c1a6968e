// NVML, the NVIDIA management library, reports driver version, current clocks, power and temperature. It
// comes with the driver and is loaded at run time. Without it, these facts stay unknown.
#include "backend/cuda/chip/device_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/device.h"

namespace nibble::cuda {
namespace {

// Types and constants as in nvml.h. NVML functions return 0 on success.
using Device = void*;
constexpr unsigned kCoreClock{1}, kMemoryClock{2}, kGpuTemperature{0};

class ManagementLibrary {
 public:
  ManagementLibrary() : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    is_ready_ = call<>("nvmlInit_v2");
  }
  ManagementLibrary(const ManagementLibrary&) = delete;
  ManagementLibrary& operator=(const ManagementLibrary&) = delete;
  ~ManagementLibrary() {
    if (is_ready_) call<>("nvmlShutdown");
    if (library_) dlclose(library_);
  }

  template <typename... Arguments>
  bool call(const char* function, Arguments... arguments) const {
    void* const found = library_ ? dlsym(library_, function) : nullptr;
    return found && reinterpret_cast<int (*)(Arguments...)>(found)(arguments...) == 0;
  }

  // Calls an NVML function that stores a number through its last argument. Returns the number; empty on
  // failure.
  template <typename... Arguments>
  std::optional<int> number(const char* function, Arguments... arguments) const {
    unsigned value = 0;
    if (!call(function, arguments..., &value)) return std::nullopt;
    return static_cast<int>(value);
  }

 private:
  void* library_;
  bool is_ready_{false};
};

std::optional<double> watts(std::optional<int> milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1e3;
}

void add_state(DeviceFacts& facts) {
  const ManagementLibrary library;
  char bus_id[32]{}, driver[96]{};
  Device device = nullptr;
  if (library.call("nvmlSystemGetDriverVersion", +driver, unsigned{sizeof driver})) facts.driver = driver;
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0) != cudaSuccess ||
      !library.call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus_id), &device))
    return;
  facts.core_mhz = library.number("nvmlDeviceGetClockInfo", device, kCoreClock);
  facts.memory_mhz = library.number("nvmlDeviceGetClockInfo", device, kMemoryClock);
  facts.power_watts = watts(library.number("nvmlDeviceGetPowerUsage", device));
  facts.power_limit_watts = watts(library.number("nvmlDeviceGetEnforcedPowerLimit", device));
  facts.temperature_celsius = library.number("nvmlDeviceGetTemperature", device, kGpuTemperature);
}

std::string uuid_text() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading its properties");
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(properties.uuid.bytes[i]));
  return text;
}

}  // namespace

DeviceFacts device_facts() {
  const DeviceCaps& device = device_caps();
  // A value of 0 means unknown. A GPU that shares the host's memory reports 0 as its memory clock.
  const auto attribute = [](cudaDeviceAttr which, int unit) -> std::optional<int> {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, 0), "reading its attributes");
    if (value == 0) return std::nullopt;
    return value / unit;
  };
  DeviceFacts facts;
  facts.name = device.name;
  facts.uuid = uuid_text();
  facts.num_multiprocessors = device.num_multiprocessors;
  facts.memory_bytes = device.total_bytes;
  facts.cache_bytes = attribute(cudaDevAttrL2CacheSize, 1);
  facts.highest_core_mhz = attribute(cudaDevAttrClockRate, 1000);
  facts.highest_memory_mhz = attribute(cudaDevAttrMemoryClockRate, 1000);
  add_state(facts);
  return facts;
}

}  // namespace nibble::cuda
