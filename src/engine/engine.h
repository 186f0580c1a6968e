// The engine: one thread owns the scheduler and the backend. Requests go in from any thread, events come out.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/engine_options.h"
#include "engine/event.h"
#include "engine/generation_request.h"
#include "engine/progress.h"
#include "engine/scheduler.h"
#include "speculative/draft_counts.h"
#include "text/tokenizer.h"

namespace nibble {

// State of the engine, updated after each step and whenever requests arrive or are cancelled.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{};  // pages of running sequences
  int num_pages{0};         // pages of all KV caches, for full and sliding layers together
  uint64_t num_faults{0};   // failed steps, in the backend or in the engine
  SchedulerCounts counts{};
  speculative::DraftCounts drafts{};
  std::vector<KernelLaunches> launches{};  // kernels launched by the backend
  std::vector<Counter> steps{};            // counters of the backend: steps by the way they were launched
  EngineProgress progress{};
  // Reason why no further step can run: the backend is lost, or three steps in a row failed with the same
  // fault. Then all requests fail, later ones too. Empty while the engine works.
  std::string lost{};
};

class Engine {
 public:
  // Backend and tokenizer must outlive the engine. Throws InputError if the options let no request run.
  Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // cancels all unfinished requests, then joins the thread
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns nothing if the request can be run, else one line: what, where, what to do. Thread-safe.
  std::optional<std::string> fault_of(const GenerationRequest& request) const;

  // Queues a request without waiting for the model. A request that can't be run yields a FailedEvent.
  RequestId submit(GenerationRequest request);
  // Queues `num_choices` answers to one prompt as separate requests with adjacent ids. The first has the
  // request's seed, the others have derived seeds. All share the prompt's full pages by the prefix cache.
  std::vector<RequestId> submit_choices(GenerationRequest request, int num_choices);
  // Cancels a request; no effect if the request has ended. The FinishedEvent (kCancelled) of the request
  // follows after its pages are freed.
  void cancel(RequestId request);

  EngineState state() const;  // never waits for the backend

  // Waits for the next event of any request, in the order of the steps. Returns nothing after the timeout.
  std::optional<Event> wait_event(std::chrono::milliseconds timeout);
  // Waits like wait_event(). Returns all events that have arrived; none after the timeout.
  std::vector<Event> wait_events(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble
