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
  int num_full_pages{0}, num_sliding_pages{0};  // of each KV cache
  int max_batch_tokens{512};                    // rows of one step; longer prompts are split into chunks
  int max_shared_rows{0};                       // SchedulerOptions::max_shared_rows
  int max_sequences{16};  // running at once, at most max_batch_tokens; the rest wait in the queue
  int max_context{0};     // tokens of prompt and output together; 0: the model's limit
  // Shares KV pages between prompts with a common prefix, and keeps the pages after a request has ended.
  // False: every prompt is run from its first token. The answers are the same either way.
  bool prefix_cache{true};
  // Without drafters every token takes one step. The answers are the same either way.
  speculative::SpeculationOptions speculation{};
  GatherOptions gathering{};
  // Called on the engine's thread after each step; the engine waits for it. May be empty.
  std::function<void(const StepReport&)> on_step{};
};

// The engine's state after the last step, or after the last requests arrived or were cancelled.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{}, pages{};  // held by running sequences; total in the pools
  uint64_t num_faults{0};            // failed steps, in the backend or in the engine
  SchedulerCounts counts{};
  speculative::DraftCounts drafts{};
  std::vector<Counter> steps{};  // the backend's steps, by how it launched them
  EngineProgress progress{};
  // Why the engine can run no further step: the backend is lost, or three steps in a row failed with the same
  // fault. All requests have failed and all later ones fail. Empty while the engine works.
  std::string lost{};
};

class Engine {
 public:
  // Backend and tokenizer must outlive the engine. Throws InputError if no request could run with the
  // options.
  Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // cancels all unfinished requests, then joins the thread
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns nothing if the request can be run, else one line: what, where, what to do. Any thread may call
  // it.
  std::optional<std::string> fault_of(const GenerationRequest& request) const;

  // Queues a request and never waits for the model. A request that can't be run (too long, a value out of
  // range) yields a FailedEvent.
  RequestId submit(GenerationRequest request);
  // Queues several answers to one prompt as separate, adjacent requests. The first answer equals that of
  // submit(); the seeds of the others are derived from the request's seed. With the prefix cache the full
  // pages of the prompt are computed once.
  std::vector<RequestId> submit_choices(GenerationRequest request, int num_choices);
  // Cancels a request; does nothing if it has ended. Its pages are free once its FinishedEvent (kCancelled)
  // is out.
  void cancel(RequestId request);

  EngineState state() const;  // never waits for the backend

  // Waits for the next event of any request, in the order of the steps. Returns nothing after the timeout.
  std::optional<Event> wait_event(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble
