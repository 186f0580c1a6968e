// What a backend finds when it tries its kernels on other numbers of rows than those that its table gives them.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace nibble {

// A kernel in steps of so many rows.
struct KernelTrial {
  Operation operation;
  std::string kernel;  // as KernelChoice has it
  int num_rows;
  double microseconds{
      0};  // for a layer, or for the step where it is no layer's; of several repetitions the median
  std::string fault{};  // why it was not timed: what its check found wrong
};

struct KernelTrials {
  std::vector<KernelTrial> trials;
  // The kernels of the operations that were tried, in the order of rows: as the table has them, and as these times would. Rows of a kernel
  // that follow each other are one.
  std::vector<KernelChoice> chosen, fastest;
};

}  // namespace nibble
