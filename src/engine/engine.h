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
#include "engine/request.h"
#include "engine/scheduler.h"
#include "text/tokenizer.h"

namespace nibble {

// What a step that was run cost. Called on the engine's thread, which waits for it.
struct StepReport {
  int num_tokens{0}, num_sequences{0};  // rows of the batch, and how many sequences they are of
  double backend_seconds{0};            // running the model
  double other_seconds{0};              // planning the step, and handing out what it gave
};

struct EngineOptions {
  int num_full_pages{0}, num_sliding_pages{0};  // as the backend was made with
  int max_batch_tokens{512};                    // rows of one step; longer prompts are fed in chunks
  int max_sequences{16};  // running at once (never more than rows); the rest wait, first come first served
  int max_context{0};     // prompt and output together; 0: the model's
  // Prompts that begin alike share pages, and pages stay known when their request has ended. Off: every prompt is run from
  // its first token. The answers are the same.
  bool prefix_cache{true};
  std::function<void(const StepReport&)> on_step{};  // may be empty
};

// As of the last step, or since it: who came and went.
struct EngineState {
  int num_running{0}, num_waiting{0};
  PageCounts pages_held{}, pages{};  // by sequences that run; all
  uint64_t num_faults{0};            // steps that the backend could not run
  SchedulerCounts counts{};
};

class Engine {
 public:
  // Both outlive the engine. Throws InputError for options that no request could run with.
  Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // cancels what still runs, then joins
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Nothing if the request can be run. Else one line: what, where, what to do. From any thread.
  std::optional<std::string> fault_of(const Request& request) const;

  // Never blocks on the model. A request that can't be run (too long, an impossible value) fails by its event.
  RequestId submit(Request request);
  // Several answers to the same prompt: requests of their own, next to each other in the queue. The first is what submit
  // gives; the seed of each of the others follows from the request's. With the prefix cache the prompt's whole pages are
  // run once.
  std::vector<RequestId> submit_choices(Request request, int num_choices);
  // Its pages are free once its FinishedEvent (kCancelled) is out. Cancelling what has ended does nothing.
  void cancel(RequestId request);

  EngineState state() const;

  // The next event of any request, in the order of the steps; nothing if none came in time.
  std::optional<Event> wait_event(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble
