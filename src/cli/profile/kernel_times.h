// The time of a step by kernel: number of launches, duration of a launch, and bytes that the kernel has to
// read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/profile/parts.h"
#include "core/text/json.h"
#include "model/ops.h"

namespace nibble::cli {

struct KernelTime {
  std::string_view kernel, part;
  Operation operation{};
  int num_launches{0};                     // launches per step
  double microseconds{0};                  // time per step: median of the repetitions
  double launch_median{0}, launch_p99{0};  // microseconds, over all launches of all repetitions
  size_t bytes{0};                         // weights and KV cache that the kernel has to read per step
  uint64_t flops{0};                       // operations per step
};

// Returns the kernels in the order of their first launches. The time of a launch is what it adds to the step,
// without its overlap with earlier work. So in each repetition, the times of a part's kernels add up to the
// part's time; the reported medians add up to it only approximately. The cost (bytes, flops) of an operation
// is assigned to the kernel of this operation that takes longest. If an operation has no kernel, because a
// kernel of another operation computes it too, its cost is assigned to the kernel of its part that takes
// longest. Kernels of a draft head have 0 bytes and flops, because `costs` covers only the model's own
// operations. Needs at least one repetition.
std::vector<KernelTime> kernel_times(std::span<const std::vector<TimedWork>> repetitions,
                                     std::span<const OperationCost> costs);

// Returns a Markdown table; `read_bandwidth` in bytes/s, `step` in microseconds. If both halves of the
// experts have kernels, a line below gives the ratios of their times and of their bytes.
std::string kernel_table(std::span<const KernelTime> kernels, double read_bandwidth, double step);

Json to_json(std::span<const KernelTime> kernels, double read_bandwidth);

}  // namespace nibble::cli
