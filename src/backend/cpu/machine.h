// What every operation is given beside its own arguments.
#pragma once

#include "backend/cpu/kernel_table.h"
#include "core/thread_pool.h"

namespace nibble::cpu {

struct Machine {
  Kernels kernels;
  ThreadPool& pool;
};

}  // namespace nibble::cpu
