// Steps of a scheduler without a model, for its tests.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/scheduler.h"

namespace nibble {

constexpr RequestId id(int n) { return static_cast<RequestId>(n); }
inline SchedulerOptions scheduler_options() {
  return {.max_batch_tokens = 64, .max_sequences = 8, .num_pages = 200, .window = 128};
}
// Runs a step in which every sequence samples token 1.
inline std::vector<Slice> run_step(Scheduler& scheduler) {
  const std::vector<Slice> slices = scheduler.next();
  for (const Slice& slice : slices)
    if (slice.gives_token) scheduler.push(slice.request, 1);
  return slices;
}
// Returns a prompt that shares no prefix with others.
inline std::vector<TokenId> prompt(RequestId request, int num_tokens) {
  std::vector<TokenId> tokens(static_cast<size_t>(num_tokens), 5);
  tokens[0] = 1000 + static_cast<TokenId>(request);
  return tokens;
}
inline void add(Scheduler& scheduler, RequestId request, int num_prompt_tokens, int max_output_tokens) {
  scheduler.add(request, prompt(request, num_prompt_tokens), max_output_tokens);
}
// Returns the slice of a request in a step, or an empty slice.
inline Slice part_of(const std::vector<Slice>& slices, RequestId request) {
  const auto found =
      std::find_if(slices.begin(), slices.end(), [&](auto& s) { return s.request == request; });
  return found == slices.end() ? Slice{} : *found;
}
inline SchedulerOptions options_for_long_prompts() {
  SchedulerOptions options = scheduler_options();
  options.num_pages = 4000;
  return options;
}
// Returns the number of steps until a request's prompt is complete.
inline int steps_until_token(Scheduler& scheduler, RequestId request) {
  for (int num_steps = 1; num_steps < 10'000; ++num_steps)
    if (part_of(run_step(scheduler), request).gives_token) return num_steps;
  return 0;
}

}  // namespace nibble
