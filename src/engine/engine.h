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

// The engine's state after the last step, or after the last requests arrived or were cancelled.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{};  // by running sequences
  int num_pages{0};         // of all KV caches, for both kinds of layer
  uint64_t num_faults{0};   // failed steps, in the backend or in the engine
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
