// What checking a kernel on this very machine says, in the form that every backend tells it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace nibble {

struct KernelFinding {
  double worst{0};   // the largest error over its bound: right where it is at most 1
  std::string at{};  // where that was: shape, values, what, row and column, what it was and should have been
  size_t num_compared{0};  // numbers

  bool is_right() const { return worst <= 1 && num_compared > 0; }
};

struct KernelCheck {
  std::string name;  // of the row of the kernel table
  std::function<KernelFinding()> run;
};

}  // namespace nibble
