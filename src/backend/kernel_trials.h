// Timings of alternative kernels: each is also tried at row counts for which the kernel table chooses
// another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/progress.h"

namespace nibble {

// The trials of kernels to run.
struct TrialPlan {
  std::span<const int> num_rows;
  int num_repetitions;
  const ReportProgress& report;
};

// One kernel, timed in steps of `num_rows` rows.
struct KernelTrial {
  Operation operation;
  std::string kernel;  // as in KernelChoice
  int num_rows;
  // Median of several repetitions; per layer, or per step if the operation is not part of a layer.
  double microseconds{0};
  std::string fault{};  // the error that its check found; a kernel with a fault is not timed
};

struct KernelTrials {
  std::vector<KernelTrial> trials;
  // The kernels of the tried operations, by number of rows: `chosen` according to the kernel table, `fastest`
  // according to the timings. Adjacent ranges of the same kernel are merged.
  std::vector<KernelChoice> chosen, fastest;
};

}  // namespace nibble
