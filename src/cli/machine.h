// What this machine is, for records of measurements.
#pragma once

#include <string>

namespace nibble::cli {

std::string cpu_name();  // as it calls itself; its architecture where it has no name

}  // namespace nibble::cli
