// The number of launches of a kernel since the backend was created. This header is C++17, because CUDA code
// includes it.
#pragma once

#include <cstddef>
#include <string_view>

namespace nibble {

// `kernel`: the kernel's name in profiles, such as "experts_up". A kernel that does two operations has the
// name of the second operation.
struct KernelLaunches {
  std::string_view kernel;
  size_t count{0};
};

}  // namespace nibble
