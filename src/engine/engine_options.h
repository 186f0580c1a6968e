// The options of an engine, and what it reports about each step.
#pragma once

#include <functional>
#include <optional>

#include "engine/gathering.h"
#include "speculative/speculator.h"

namespace nibble {

struct StepReport {
  int num_tokens{0}, num_sequences{0};  // rows of the step, and the number of sequences with rows
  // Time of the step on the backend: from its launch, or from the end of the previous step if that was later.
  double backend_seconds{0};
  // Host time for planning the step and sending out its events while no step was running.
  double other_seconds{0};
  // Time that the device idled since the previous step. Set only if the device reports times (StepResult), no
  // sequence of either step was still in its prompt, and the engine has not been idle in between.
  std::optional<double> device_idle_seconds{};
};

struct EngineOptions {
  // num_kv_caches and num_pages must equal those of the backend.
  int num_kv_caches{1};
  int num_pages{0};           // pages of each KV cache, for full and sliding layers together
  int max_batch_tokens{512};  // rows of one step; longer prompts are split into chunks
  int max_shared_rows{0};     // limit of a step's prompt rows if several sequences run or wait; 0: no limit
  double itl_target{0};       // target for the seconds between tokens (step_pace.h); 0: no target
  // Limit on the prompt rows of a step in which answers get tokens, if itl_target is 0; 0: no limit.
  int max_rows_with_answers{0};
  int max_sequences{16};  // sequences that run at once, at most max_batch_tokens; others wait
  int max_context{0};     // tokens of prompt and output together; 0: the model's limit
  // Shares KV pages of common prefixes between prompts, also after an answer ends. Does not change answers.
  bool prefix_cache{true};
  // Drafters and their limits. Without drafters a step samples one token per answer. Drafts do not change
  // answers.
  speculative::SpeculationOptions speculation{};
  GatherOptions gathering{};
  // Called on the engine's thread after each step; the engine waits for it. May be empty.
  std::function<void(const StepReport&)> on_step{};
};

}  // namespace nibble
