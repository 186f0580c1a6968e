// The resources that every operation of the CPU backend uses: kernels, threads, tuning, and the flag that
// stops a step.
#pragma once

#include <cstddef>

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/kernel_table.h"
#include "backend/cpu/step_stop.h"
#include "core/threads/thread_pool.h"

namespace nibble::cpu {

struct Machine {
  Kernels kernels;
  ThreadPool& pool;
  CpuTuning tuning{};
  const StepStop* stop{nullptr};  // of the running step; null: the step is never given up

  bool is_stopped() const { return stop && stop->is_set(); }
  int panel_rows(ptrdiff_t num_tokens) const {
    return num_tokens < kManyTokens ? tuning.panel_rows : tuning.large_panel_rows;
  }
};

}  // namespace nibble::cpu
