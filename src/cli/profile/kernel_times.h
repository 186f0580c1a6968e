// The time of a step by kernel: how often each runs, how long a launch takes, and what it has to read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/profile/parts.h"
#include "core/json.h"
#include "model/ops.h"

namespace nibble::cli {

struct KernelTime {
  std::string_view kernel, part;
  Operation operation{};
  int num_launches{0};                     // in a step
  double microseconds{0};                  // of a step: the median of the repetitions
  double launch_median{0}, launch_p99{0};  // microseconds, over all launches of all repetitions
  size_t bytes{0};                         // weights and KV cache that it has to read in a step
  uint64_t flops{0};                       // in a step
};

// Returns the kernels in the order of their first launches. Times are those that a launch adds to the step,
// so kernels of a part add up to the part (up to medians). The cost of an operation counts for its longest
// kernel; if it has none, because another one computes it too, for the longest kernel of its part. Kernels of
// a draft head have no bytes of their own. Needs at least one repetition.
std::vector<KernelTime> kernel_times(std::span<const std::vector<TimedWork>> repetitions,
                                     std::span<const OperationCost> costs);

// A Markdown table; `read_bandwidth` in bytes/s, `step` in microseconds. Below it, where both halves of the
// experts have a kernel, the ratio of their times next to that of their bytes.
std::string kernel_table(std::span<const KernelTime> kernels, double read_bandwidth, double step);

nlohmann::ordered_json to_json(std::span<const KernelTime> kernels, double read_bandwidth);

}  // namespace nibble::cli
