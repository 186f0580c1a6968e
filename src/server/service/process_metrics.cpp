#include "server/service/process_metrics.h"

#include <dirent.h>
#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <limits>
#include <string>

namespace nibble::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {std::move(metric)}};
}

struct ProcessStat {
  double virtual_bytes{0}, resident_bytes{0}, start_seconds{0};  // start_seconds: since boot
};

// Reads /proc/self/stat after the program's name, which may contain spaces: from field 3 on.
ProcessStat read_stat() {
  constexpr int kStart{22}, kVirtualBytes{23}, kResidentPages{24};
  ProcessStat stat;
  std::ifstream file("/proc/self/stat");
  file.exceptions(std::ios::badbit);  // otherwise the stream swallows std::bad_alloc
  file.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string field;
  for (int number = 3; number <= kResidentPages && file >> field; ++number) {
    if (number == kStart) stat.start_seconds = std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    if (number == kVirtualBytes) stat.virtual_bytes = std::stod(field);
    if (number == kResidentPages)
      stat.resident_bytes = std::stod(field) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }
  return stat;
}

double boot_seconds() {  // since 1970
  std::ifstream file("/proc/stat");
  file.exceptions(std::ios::badbit);
  for (std::string word; file >> word;)
    if (double seconds{}; word == "btime" && file >> seconds) return seconds;
  return 0;
}

double processor_seconds() {
  std::timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double num_open_files() {
  // std::filesystem would end the process if memory for the next name ran out.
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  double number = -3;  // excludes ".", ".." and the folder itself
  while (::readdir(folder)) ++number;
  ::closedir(folder);
  return number;
}

}  // namespace

std::vector<MetricFamily> process_metrics() {
  const ProcessStat stat = read_stat();
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const MetricType gauge = MetricType::Gauge;
  return {
      family("process_cpu_seconds_total", "User and system CPU time.", MetricType::Counter,
             processor_seconds()),
      family("process_resident_memory_bytes", "Resident memory, including mapped files.", gauge,
             stat.resident_bytes),
      family("process_virtual_memory_bytes", "Virtual memory size.", gauge, stat.virtual_bytes),
      family("process_open_fds", "Open file descriptors.", gauge, num_open_files()),
      family("process_max_fds", "Maximum number of open file descriptors.", gauge,
             static_cast<double>(files.rlim_cur)),
      family("process_start_time_seconds", "Start time of the process, in seconds since 1970.", gauge,
             boot_seconds() + stat.start_seconds),
  };
}

}  // namespace nibble::server
