// Timings of kernels, also at row counts for which the kernel table chooses another kernel.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/tuned_steps.h"
#include "core/progress.h"

namespace nibble {

struct TrialPlan {
  std::span<const int> num_rows;
  int num_repetitions;
  const ReportProgress& report;
};

struct KernelTrial {
  Operation operation;
  std::string kernel;  // name in the kernel table
  int num_rows;
  // Median of repetitions; per layer, or per step if the operation is not part of a layer.
  double microseconds{0};
  std::string fault{};  // the error that its check found; a kernel with a fault is not timed
};

struct KernelTrials {
  std::vector<KernelTrial> trials;
  // Kernels by number of rows: `chosen` by the table, `fastest` by time. Adjacent ranges are merged.
  std::vector<KernelChoice> chosen, fastest;
  std::vector<TunedSteps> tuned{};  // where `fastest` differs from `chosen`
};

}  // namespace nibble
