// nibble profile: shows which parts of a step take its time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/timed_work.h"
#include "cli/measure/plausibility.h"
#include "model/ops.h"

namespace nibble::cli {

struct StepBytes {
  std::vector<OperationCost> operations;  // costs of the model's own operations
  size_t of_drafts{0};                    // bytes that a draft head reads
};

struct PartTime {
  std::string_view part;
  double microseconds{0};  // median
  double deviation{0};     // standard deviation, in microseconds
  int num_launches{0};
  size_t bytes{0};    // weights and KV cache that the part has to read
  uint64_t flops{0};  // operations of the part's matrix products; 0 for a draft head (not counted)
};

// Returns the parts in the order of kPartNames, the draft head's part only if a draft head ran; then "gaps",
// the time without a kernel. Times are medians, so their sum differs from the step's median. Needs at least
// one repetition.
std::vector<PartTime> part_times(std::span<const std::vector<TimedWork>> repetitions, const StepBytes& bytes);

// Returns the bytes that each repetition reads again, for comparison with the size of the caches.
Reuse reuse_of(const std::vector<PartTime>& parts, std::optional<size_t> cache_bytes);

// Returns a line per part that reads faster than `read_bandwidth` (bytes/s) in a step too large for caches.
std::vector<std::string> contradictions(const std::vector<PartTime>& parts, double read_bandwidth,
                                        const Reuse& reuse);

// Returns a trace for Chrome's trace viewer, with an event per piece of work.
std::string chrome_trace(std::span<const TimedWork> work);

}  // namespace nibble::cli
