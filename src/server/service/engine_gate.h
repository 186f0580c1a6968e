// The gate between the engine and the coroutines of the I/O thread: it limits how many answers are in work at once, and
// passes each event of the engine on to the request that waits for it. Only the I/O thread may use it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "engine/engine.h"
#include "server/service/metrics.h"

namespace nibble::server {

class Generation;

class EngineGate {
 public:
  // At most `max_choices` answers run and wait at once, over all clients; a request with n = 4 counts as 4.
  EngineGate(boost::asio::any_io_executor executor, Engine& engine, Metrics& metrics, size_t max_choices)
      : executor_(std::move(executor)), engine_(engine), metrics_(metrics), max_choices_(max_choices) {}

  const Engine& engine() const { return engine_; }
  void check_room(
      size_t num_choices) const;  // throws HttpError (429) if so many more answers exceed the limit
  // Throws HttpError (400) if one request can never have so many answers at once.
  void check_count(size_t num_choices) const;
  void deliver(Event event);
  void cancel_all();
  // Ends all answers here and now as cancelled, without the engine, which does not answer.
  void end_all();
  size_t num_choices() const { return choices_.size(); }  // answers that the engine has not ended yet
  struct InWork {
    double seconds;  // since it was submitted
    int num_tokens;
  };
  std::vector<InWork> in_work() const;  // the same answers, the oldest first

 private:
  friend class Generation;
  struct Listener {
    Generation* generation;  // null: cancelled, but the engine's last event has not come yet
    size_t choice;
    Outcome dropped_as{Outcome::kAbort};  // how it counts; kAbort: as the engine says
    Stopwatch clock;                      // started when it was submitted
    double last_token_seconds{0};
    int num_tokens{0};
  };
  void measure(Listener& listener, const Event& event);

  boost::asio::any_io_executor executor_;
  Engine& engine_;
  Metrics& metrics_;
  size_t max_choices_;
  std::unordered_map<RequestId, Listener> choices_;
};

// The answers to one HTTP request, while the engine works on them. Destroying this cancels those that still run.
class Generation {
 public:
  // Asks for `num_choices` answers to each prompt, in the order of the prompts. Throws HttpError if the engine can't run
  // one of them (400) or the gate has no room for all (429); then none is run.
  Generation(EngineGate& gate, std::vector<GenerationRequest> prompts, int num_choices);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  size_t num_choices() const { return ids_.size(); }

  struct ChoiceEvent {
    size_t choice;
    Event event;
  };
  // Waits for the next event of any choice; nothing if none came in time, or if the request was abandoned meanwhile. Throws
  // std::bad_alloc if an event was lost for want of memory.
  boost::asio::awaitable<std::optional<ChoiceEvent>> next(std::chrono::milliseconds patience);

  std::vector<size_t> open_choices() const;  // those that have neither ended nor been dropped
  // Cancels one choice; next() gives no further event of it. `outcome`: how it counts, kStop where a stop string ended it.
  void drop_choice(size_t choice, Outcome outcome);

  // The client has disconnected: cancels all choices at once and wakes next().
  void abandon();
  bool is_abandoned() const { return is_abandoned_; }

 private:
  friend class EngineGate;
  explicit Generation(EngineGate& gate) : gate_(gate), event_came_(gate.executor_) {}
  void submit(GenerationRequest prompt, int num_choices);
  void receive(size_t choice, Event event);

  EngineGate& gate_;
  std::vector<std::optional<RequestId>> ids_;  // by choice; empty once it has ended or was cancelled
  std::deque<ChoiceEvent> events_;
  boost::asio::steady_timer event_came_;
  bool is_abandoned_{false};
  bool has_lost_event_{false};  // for want of memory
};

}  // namespace nibble::server
