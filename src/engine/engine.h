// The engine: one thread owns the scheduler and the backend. Requests go in from any thread, events come out.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/engine_options.h"
#include "engine/engine_state.h"
#include "engine/event.h"
#include "engine/generation_request.h"
#include "text/tokenizer.h"

namespace nibble {

class Engine {
 public:
  // Backend and tokenizer must outlive the engine. Throws InputError if the options let no request run.
  Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // cancels all unfinished requests, then joins the thread
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns nothing if the request can be run, else one line that says what is wrong, where, and what to do.
  // Thread-safe.
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
