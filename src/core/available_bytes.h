// Memory of the host that programs may still take, files in the page cache included.
#pragma once

#include <cstddef>
#include <istream>

namespace nibble {

size_t available_bytes();
// The same from the text of /proc/meminfo; SIZE_MAX where it does not say.
size_t available_bytes(std::istream& meminfo);

}  // namespace nibble
