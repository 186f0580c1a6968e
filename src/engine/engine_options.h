// The options of an engine, and what it reports about each step.
#pragma once

#include <functional>
#include <optional>

#include "engine/gathering.h"
#include "speculative/speculator.h"

namespace nibble {

struct StepReport {
  int num_tokens{0}, num_sequences{0};  // rows of the batch; sequences that they belong to
  // From the launch of this step or the end of the previous one, whichever is later.
  double backend_seconds{0};
  // Host time for planning the step and sending out its events while no step was running.
  double other_seconds{0};
  // Device idle time since the previous step. Set only if the device reports times (StepResult), no sequence
  // of either step was in its prompt, and there was work all the time in between.
  std::optional<double> device_idle_seconds{};
};

struct EngineOptions {
  // The number of KV caches and both page counts must equal the backend's.
  int num_kv_caches{1};
  int num_full_pages{0}, num_sliding_pages{0};  // of each KV cache
  int max_batch_tokens{512};                    // rows of one step; longer prompts are split into chunks
  int max_shared_rows{0};                       // SchedulerOptions::max_shared_rows
  int max_sequences{16};  // running at once, at most max_batch_tokens; the rest wait in the queue
  int max_context{0};     // tokens of prompt and output together; 0: the model's limit
  // Shares KV pages between prompts with a common prefix, and keeps them afterwards. Does not change answers.
  bool prefix_cache{true};
  // Without drafters every token takes one step. Does not change answers.
  speculative::SpeculationOptions speculation{};
  GatherOptions gathering{};
  // Called on the engine's thread after each step, which delays the engine. May be empty.
  std::function<void(const StepReport&)> on_step{};
};

}  // namespace nibble
