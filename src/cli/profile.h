// nibble profile: where the time of one step goes.
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

// What a step reads: the model's operations, and a draft head.
struct StepBytes {
  std::vector<OperationCost> operations;
  size_t of_drafts{0};
};

// A part of a step: its time is the median over repetitions.
struct PartTime {
  std::string_view part;
  double microseconds{0};
  double deviation{0};  // standard deviation over repetitions, microseconds
  int num_launches{0};
  size_t bytes{0};  // weights and KV cache that it has to read
};

// The parts of a step in the order of the table, that of a draft head only where there is one, then "gaps": the time in which no launch ran. Each is a median of its own, so that their
// sum is close to the median step, not equal. `repetitions` are of the same step, and not empty.
std::vector<PartTime> part_times(std::span<const std::vector<TimedWork>> repetitions, const StepBytes& bytes);

// The bytes that each repetition of the step reads again.
Reuse reuse_of(const std::vector<PartTime>& parts, std::optional<size_t> cache_bytes);

// Parts that read faster than the memory does (bytes per second) though the step does not fit into the caches, a line each.
std::vector<std::string> contradictions(const std::vector<PartTime>& parts, double read_bandwidth,
                                        const Reuse& reuse);

// In the format of Chrome's trace viewer: one event for each piece of work.
std::string chrome_trace(std::span<const TimedWork> work);

Action define_profile(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
