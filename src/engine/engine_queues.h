// Connects the engine's thread with the threads of its clients: requests and cancellations go in, events and
// the engine's state come out.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/system/clock.h"
#include "engine/engine_state.h"
#include "engine/event.h"
#include "engine/generation_request.h"
#include "engine/progress.h"

namespace nibble {

class EngineQueues {
 public:
  struct Order {
    RequestId id{};
    std::optional<GenerationRequest> request{};  // empty: cancel the request with this id
    Stopwatch submitted{};
  };

  // ---- for all threads ----

  // Queues `num_choices` requests with derived seeds (Engine::submit_choices()). With a `fault`, queues a
  // FailedEvent for each of them instead. If memory runs out, throws std::bad_alloc and queues no request.
  std::vector<RequestId> submit(GenerationRequest request, int num_choices,
                                const std::optional<std::string>& fault);
  void cancel(RequestId request);
  void close();  // tells the engine's thread to end
  EngineState state() const;
  std::optional<Event> wait_event(std::chrono::milliseconds timeout);
  std::vector<Event> wait_events(std::chrono::milliseconds timeout);

  // ---- for the engine's thread ----

  // Returns the orders that have arrived. If the engine `is_idle`, waits for one. Returns nullopt after
  // close().
  std::optional<std::vector<Order>> take_orders(bool is_idle);
  // Waits until an order arrives, the queues are closed or the time is over.
  void wait_for_order(std::chrono::duration<double> timeout);
  void put(Event event);            // queues the event for publish()
  void reserve(size_t num_events);  // allocates memory for events that put() will queue
  // Publishes the state together with the events put since the last call: a thread that receives such an
  // event sees this state. If `state.steps` or `state.launches` is empty, keeps the published values.
  void publish(EngineState state);
  Progress& progress() { return progress_; }
  // The step that the engine's thread runs on the backend, and the requests that need it. While this object
  // exists, cancel() and close() set is_unneeded() once no request needs the step any more: all of them are
  // cancelled, or the engine must end.
  class NeededStep {
   public:
    NeededStep(EngineQueues& queues, std::vector<RequestId> requests);
    ~NeededStep();
    NeededStep(const NeededStep&) = delete;

   private:
    EngineQueues& queues_;
  };
  const std::atomic<bool>& is_unneeded() const { return is_unneeded_; }  // for Batch::is_unneeded

 private:
  mutable std::mutex mutex_;  // guards the members from here to state_
  std::condition_variable order_came_, event_came_;
  std::vector<Order> orders_;
  std::vector<Event> events_;
  size_t num_taken_{0};  // number of events_ that wait_event() has returned
  bool is_closing_{false};
  std::vector<RequestId> needing_step_;  // requests of the NeededStep, without cancelled ones
  uint64_t num_requests_{0};
  EngineState state_;

  std::atomic<bool> is_unneeded_{false};  // the backend reads it without the mutex
  Progress progress_;                     // thread-safe without the mutex
  std::vector<Event> unsent_;  // events put since the last publish(); used by the engine's thread only
};

}  // namespace nibble
