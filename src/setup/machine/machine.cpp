#include "setup/machine/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "core/threads/thread_pool.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> first_number(const fs::path& path) {
  std::ifstream file(path);
  int number{};
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::optional<size_t> memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return std::nullopt;
  return static_cast<size_t>(pages) * static_cast<size_t>(page_bytes);
}

// Sums the caches of the highest level. Linux lists them per core, so caches of the same cores count once.
std::optional<size_t> last_level_cache_bytes() {
  std::map<int, std::map<std::string, size_t>> bytes_of_sharers;  // level -> list of sharing cores -> bytes
  std::error_code error;
  for (const auto& cpu : fs::directory_iterator("/sys/devices/system/cpu", error)) {
    for (const auto& cache : fs::directory_iterator(cpu.path() / "cache", error)) {
      const auto level = first_number(cache.path() / "level"),
                 kilobytes = first_number(cache.path() / "size");
      if (!level || !kilobytes || first_line(cache.path() / "type") == "Instruction") continue;
      bytes_of_sharers[*level][first_line(cache.path() / "shared_cpu_list")] = static_cast<size_t>(*kilobytes)
                                                                               << 10;
    }
  }
  if (bytes_of_sharers.empty()) return std::nullopt;
  size_t sum = 0;
  for (const auto& [sharers, bytes] : bytes_of_sharers.rbegin()->second) sum += bytes;
  return sum;
}

std::optional<int> clock_mhz(const char* file) {
  const std::optional<int> khz = first_number(fs::path("/sys/devices/system/cpu/cpu0/cpufreq") / file);
  if (!khz) return std::nullopt;
  return *khz / 1000;
}

}  // namespace

Machine describe_machine(std::optional<DeviceFacts> device) {
  return {.cpu = cpu_name(),
          .num_cores = num_usable_cores(),
          .memory_bytes = memory_bytes(),
          .cache_bytes = last_level_cache_bytes(),
          .cpu_mhz = clock_mhz("scaling_cur_freq"),
          .highest_cpu_mhz = clock_mhz("cpuinfo_max_freq"),
          .device = std::move(device)};
}

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find(": ");
    if (value != std::string::npos) return line.substr(value + 2);
  }
  utsname system{};  // Linux on ARM reports no model name
  return uname(&system) == 0 ? system.machine : "unknown";
}

void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nibble
