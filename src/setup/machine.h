// What this machine is, for records of measurements, and what it lets us have.
#pragma once

#include <string>

namespace nibble {

std::string cpu_name();  // as it calls itself; its architecture where it has no name

// Each connection is an open file, and the usual limit (1024) is not the most that the system grants: from now on it is that.
void allow_open_files();

}  // namespace nibble
