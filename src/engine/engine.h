// The engine: one thread owns the scheduler and the backend. Requests go in from any thread, events come out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/event.h"
#include "engine/gathering.h"
#include "engine/generation_request.h"
#include "engine/progress.h"
#include "engine/scheduler.h"
#include "speculative/speculator.h"
#include "text/tokenizer.h"

namespace nibble {

// The size and the time of one step.
struct StepReport {
  int num_tokens{0}, num_sequences{0};  // rows of the batch, and the number of sequences that they belong to
  double backend_seconds{
      0};  // running the model, from the end of the step before if that ended later than this began
  double other_seconds{0};  // planning the step and sending out its events, while the backend had no other
  // How long the device was idle between the step before and this one: where it says when they began and ended (StepResult), both gave
  // every sequence a token, and there was work all the time.
  std::optional<double> device_idle_seconds{};
};

struct EngineOptions {
  // These three must equal the backend's.
  int num_kv_caches{1};
  int num_full_pages{0}, num_sliding_pages{0};  // of each KV cache
  int max_batch_tokens{512};                    // rows of one step; longer prompts are fed in chunks
  int max_shared_rows{0};                       // SchedulerOptions::max_shared_rows
  int max_sequences{16};  // running at once (never more than rows); the rest wait, first come first served
  int max_context{0};     // tokens of prompt and output together; 0: the model's limit
  // Prompts with a common beginning share pages, and pages are kept after their request has ended. Off: every prompt is run
  // from its first token. The answers are the same.
  bool prefix_cache{true};
  // Without drafters every token takes a step. The answers are the same.
  speculative::SpeculationOptions speculation{};
  GatherOptions gathering{};
  // May be empty. Called after each step on the engine's thread, which waits for it.
  std::function<void(const StepReport&)> on_step{};
};

// The engine's state after the last step, or after the last requests came or were cancelled.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{}, pages{};  // held by running sequences; in the pools altogether
  uint64_t num_faults{0};            // steps that the backend could not run
  SchedulerCounts counts{};
  speculative::DraftCounts drafts{};
  std::vector<Counter> steps{};  // of the backend, by how it launched them
  EngineProgress progress{};
  // Why no step can be run any more: the backend is lost, or the same fault came in three steps in a row. All requests have failed, and
  // all further ones do. Empty while the engine works.
  std::string lost{};
};

class Engine {
 public:
  // Backend and tokenizer must outlive the engine. Throws InputError for options with which no request could run.
  Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // cancels what still runs, then joins
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns nothing if the request can be run, else one line: what, where, what to do. From any thread.
  std::optional<std::string> fault_of(const GenerationRequest& request) const;

  // Queues a request and never waits for the model. One that can't be run (too long, an impossible value) gives a
  // FailedEvent.
  RequestId submit(GenerationRequest request);
  // Queues several answers to the same prompt as separate, adjacent requests. The first answer equals that of submit(); the
  // others' seeds are derived from the request's. With the prefix cache the prompt's whole pages are run once.
  std::vector<RequestId> submit_choices(GenerationRequest request, int num_choices);
  // The request's pages are free once its FinishedEvent (kCancelled) is out. Does nothing if it has already ended.
  void cancel(RequestId request);

  EngineState state() const;  // waits for nothing, whatever the backend does

  // Waits for the next event of any request, in the order of the steps; nothing if none came in time.
  std::optional<Event> wait_event(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble
