// The options of an engine, and what it reports about each step.
#pragma once

#include <functional>
#include <optional>

#include "engine/gathering.h"
#include "speculative/speculator.h"

namespace nibble {

// Size and time of one step.
struct StepReport {
  int num_tokens{0}, num_sequences{0};  // rows of the batch, and the number of sequences they belong to
  // Time in the backend, from the launch of this step or the end of the previous step, whichever is later.
  double backend_seconds{0};
  // Host time for planning the step and sending out its events while no step was running.
  double other_seconds{0};
  // Device idle time between the previous step and this one. Set only if the device reports times
  // (StepResult), no sequence of either step was in its prompt, and there was work all the time in between.
  std::optional<double> device_idle_seconds{};
};

struct EngineOptions {
  // The number of KV caches and both page counts must equal the backend's.
  int num_kv_caches{1};
  int num_pages{0};           // of each KV cache, for both kinds of layer
  int max_batch_tokens{512};  // rows of one step; longer prompts are split into chunks
  int max_shared_rows{0};     // SchedulerOptions::max_shared_rows
  int max_sequences{16};      // running at once, at most max_batch_tokens; the rest wait in the queue
  int max_context{0};         // tokens of prompt and output together; 0: the model's limit
  // Shares KV pages between prompts with a common prefix, and keeps the pages after a request has ended.
  // False: every prompt is run from its first token. The answers are the same either way.
  bool prefix_cache{true};
  // Without drafters every token takes one step. The answers are the same either way.
  speculative::SpeculationOptions speculation{};
  GatherOptions gathering{};
  // Called on the engine's thread after each step; the engine waits for it. May be empty.
  std::function<void(const StepReport&)> on_step{};
};

}  // namespace nibble
