#include "setup/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <fstream>

namespace nibble {

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find(": ");
    if (value != std::string::npos) return line.substr(value + 2);
  }
  utsname system{};  // ARM's kernel tells no name
  return uname(&system) == 0 ? system.machine : "unknown";
}

void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nibble
