#include "cli/machine.h"

#include <sys/utsname.h>

#include <fstream>

namespace nibble::cli {

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

}  // namespace nibble::cli
