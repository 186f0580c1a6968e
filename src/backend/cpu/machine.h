// The kernels, threads and tuning passed to every operation.
#pragma once

#include <cstddef>

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/kernel_table.h"
#include "core/threads/thread_pool.h"

namespace nibble::cpu {

struct Machine {
  Kernels kernels;
  ThreadPool& pool;
  CpuTuning tuning{};

  int panel_rows(ptrdiff_t num_tokens) const {
    return num_tokens < kManyTokens ? tuning.panel_rows : tuning.large_panel_rows;
  }
};

}  // namespace nibble::cpu
