// What every operation is given beside its own arguments.
#pragma once

#include "backend/cpu/kernel_table.h"

namespace nibble::cpu {

struct Machine {
  Kernels kernels;
  int num_threads;
};

}  // namespace nibble::cpu
