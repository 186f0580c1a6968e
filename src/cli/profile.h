// nibble profile: shows where the time of one step goes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/timed_work.h"
#include "cli/command.h"
#include "cli/measure/plausibility.h"
#include "model/ops.h"

namespace nibble::cli {

// Bytes that a step reads: by the operations of the model, and by a draft head.
struct StepBytes {
  std::vector<OperationCost> operations;
  size_t of_drafts{0};
};

// Time of one part of a step over all repetitions.
struct PartTime {
  std::string_view part;
  double microseconds{0};  // median
  double deviation{0};     // standard deviation, in microseconds
  int num_launches{0};
  size_t bytes{0};  // weights and KV cache that it has to read
};

// Returns the parts of a step in the order of the printed table, then "gaps", the time in which no launch
// ran. The part of a draft head is present only if one ran. Each part is a median of its own, so their sum is
// close to the median of the step, but not equal. `repetitions` must be of the same step, and not empty.
std::vector<PartTime> part_times(std::span<const std::vector<TimedWork>> repetitions, const StepBytes& bytes);

// Returns the bytes that each repetition of the step reads again, for comparison with the size of the caches.
Reuse reuse_of(const std::vector<PartTime>& parts, std::optional<size_t> cache_bytes);

// Returns a line for each part that reads faster than `read_bandwidth` (bytes per second) although the step
// does not fit into the caches.
std::vector<std::string> contradictions(const std::vector<PartTime>& parts, double read_bandwidth,
                                        const Reuse& reuse);

// Returns a trace in the format of Chrome's trace viewer: one event per piece of work.
std::string chrome_trace(std::span<const TimedWork> work);

Action define_profile(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
