// Timings of kernels, also for numbers of rows at which the kernel table chooses another kernel.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/tuned_steps.h"
#include "core/console/progress.h"

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
  // Median of the repetitions: per layer, or per step if the operation is outside the layers.
  double microseconds{0};
  std::string fault{};  // error that the kernel's check found; such a kernel is not timed
};

struct KernelTrials {
  std::vector<KernelTrial> trials;
  // Kernels for ranges of row counts: `chosen` by the table, `fastest` by time. Adjacent ranges with the same
  // kernel are merged.
  std::vector<KernelChoice> chosen, fastest;
  std::vector<TunedSteps> tuned{};  // where `fastest` differs from `chosen`
};

}  // namespace nibble
