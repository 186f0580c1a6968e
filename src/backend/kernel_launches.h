// The number of launches of a kernel since the backend was created. C++17, for device code.
#pragma once

#include <cstddef>
#include <string_view>

namespace nibble {

// `kernel`: its name in profiles, e.g. "experts_up". A kernel that does two operations has the second one's
// name.
struct KernelLaunches {
  std::string_view kernel;
  size_t count{0};
};

}  // namespace nibble
