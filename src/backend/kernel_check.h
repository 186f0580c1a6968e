// The result of checking a kernel on this machine, in the form that every backend reports.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace nibble {

struct KernelFinding {
  double worst{0};  // the largest ratio of an error to its bound; at most 1 if the kernel is right
  std::string
      at{};  // the place of that error: shape, values, output, row, column, actual and expected number
  size_t num_compared{0};  // numbers

  bool is_right() const { return worst <= 1 && num_compared > 0; }
};

struct KernelCheck {
  std::string name;  // the name in the kernel table
  std::function<KernelFinding()> run;
};

}  // namespace nibble
