// What every operation is given beside its own arguments.
#pragma once

#include <cstddef>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu_tuning.h"
#include "core/thread_pool.h"

namespace nibble::cpu {

struct Machine {
  Kernels kernels;
  ThreadPool& pool;
  CpuTuning tuning{};

  // Rows of weights that one item of work takes.
  int panel_rows(ptrdiff_t num_tokens) const {
    return num_tokens < kManyTokens ? tuning.panel_rows : tuning.large_panel_rows;
  }
};

}  // namespace nibble::cpu
