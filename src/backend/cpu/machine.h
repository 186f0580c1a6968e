// The resources that every operation of the CPU backend uses: kernels, threads, tuning, and the flag that
// stops a step.
#pragma once

#include <atomic>
#include <cstddef>

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/kernel_table.h"
#include "core/threads/thread_pool.h"

namespace nibble::cpu {

// Whether the running step was given up (Batch::is_unneeded). Loops then skip items that have not started.
class StepStop {
 public:
  // `is_unneeded`: set by another thread, or null for a step that is never given up.
  explicit StepStop(const std::atomic<bool>* is_unneeded) : is_unneeded_(is_unneeded) {}

  // Once the result is true, it stays true even if *is_unneeded is cleared. Otherwise a later loop could run
  // and read results of items that were skipped. Any thread may call this function; it costs two loads.
  bool is_set() const {
    if (!is_unneeded_) return false;
    if (is_set_.load(std::memory_order_relaxed)) return true;
    if (!is_unneeded_->load(std::memory_order_relaxed)) return false;
    is_set_.store(true, std::memory_order_relaxed);
    return true;
  }

 private:
  const std::atomic<bool>* is_unneeded_;
  mutable std::atomic<bool> is_set_{false};
};

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
