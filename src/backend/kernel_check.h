// A check of one kernel on this machine, and the result of the check. All backends use these types.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace nibble {

struct KernelFinding {
  double worst{0};  // largest ratio of an error to its bound; at most 1 if the kernel is right
  // Where the error of this ratio is: shape, values, output, row, column, actual and expected number.
  std::string at{};
  size_t num_compared{0};

  bool is_right() const { return worst <= 1 && num_compared > 0; }
};

struct KernelCheck {
  std::string name;  // the kernel's name in the kernel table
  std::function<KernelFinding()> run;
};

}  // namespace nibble
