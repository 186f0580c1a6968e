// Returns the host memory that programs can still get, in bytes, reclaimable page cache included
// (MemAvailable of /proc/meminfo).
#pragma once

#include <cstddef>
#include <istream>

namespace nibble {

size_t available_bytes();
// Parses the text of /proc/meminfo. Returns SIZE_MAX if it has no MemAvailable line.
size_t available_bytes(std::istream& meminfo);

}  // namespace nibble
