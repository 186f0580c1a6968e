// Connects the engine to the I/O thread's coroutines: limits concurrent answers, and delivers the engine's
// events to the waiting requests. I/O thread only.
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

#include "core/system/clock.h"
#include "engine/engine.h"
#include "server/service/metrics.h"

namespace nibble::server {

class Generation;

class EngineGate {
 public:
  // `max_choices`: limit on the running and waiting answers of all clients; a request with n = 4 counts as 4.
  EngineGate(boost::asio::any_io_executor executor, Engine& engine, Metrics& metrics, size_t max_choices)
      : executor_(std::move(executor)), engine_(engine), metrics_(metrics), max_choices_(max_choices) {}

  const Engine& engine() const { return engine_; }
  // Throws HttpError (429) if there is no room now for `num_choices` more answers.
  void check_room(size_t num_choices) const;
  // Throws HttpError (400) if one request with `num_choices` answers exceeds the limit.
  void check_count(size_t num_choices) const;
  void deliver(Event event);
  void cancel_all();
  // Ends all answers as cancelled, without waiting for the engine. Used if the engine does not respond.
  void end_all();
  size_t num_choices() const { return choices_.size(); }  // answers that the engine has not ended yet
  struct InWork {
    double seconds;  // since the answer was submitted to the engine
    int num_tokens;
  };
  std::vector<InWork> in_work() const;  // the answers counted by num_choices(), oldest first

 private:
  friend class Generation;
  struct Listener {
    Generation* generation;  // null: the answer was cancelled, but the engine has not confirmed it
    size_t choice;
    // Outcome that the metrics count for a dropped answer. kAbort: they count the reason in the engine's last
    // event.
    Outcome dropped_as{Outcome::kAbort};
    Stopwatch clock;  // started when the answer was submitted
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

// The answers to one HTTP request. The destructor cancels answers that have not ended.
class Generation {
 public:
  // Submits `num_choices` answers for each prompt, in order. If the engine can't run one (400), or if they
  // exceed the gate's limit (429), submits none and throws HttpError.
  Generation(EngineGate& gate, std::vector<GenerationRequest> prompts, int num_choices);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  size_t num_choices() const { return ids_.size(); }
  const Stopwatch& submitted() const { return submitted_; }

  struct ChoiceEvent {
    size_t choice;
    Event event;
  };
  // Returns the next event of any choice; nullopt after `patience` or abandon(). Throws std::bad_alloc if
  // memory ran out and an event was lost.
  boost::asio::awaitable<std::optional<ChoiceEvent>> next(std::chrono::milliseconds patience);

  // Whether next() would return a token without waiting.
  bool has_token() const {
    return !events_.empty() && !is_abandoned_ && !has_lost_event_ &&
           std::holds_alternative<TokenEvent>(events_.front().event);
  }

  std::vector<size_t> open_choices() const;  // neither ended nor dropped
  // Cancels one choice, which gets no more events. `outcome`: how to count it; kStop after a stop string.
  void drop_choice(size_t choice, Outcome outcome);

  void abandon();  // call this if the client has disconnected: cancels all choices and wakes next()
  bool is_abandoned() const { return is_abandoned_; }

 private:
  friend class EngineGate;
  explicit Generation(EngineGate& gate) : gate_(gate), event_came_(gate.executor_) {}
  void submit(GenerationRequest prompt, int num_choices);
  void receive(size_t choice, Event event);

  EngineGate& gate_;
  // [choice]: the engine's id for it; nullopt if the choice has ended or was cancelled
  std::vector<std::optional<RequestId>> ids_;
  Stopwatch submitted_;
  std::deque<ChoiceEvent> events_;
  boost::asio::steady_timer event_came_;
  bool is_abandoned_{false};
  bool has_lost_event_{false};  // memory ran out
};

}  // namespace nibble::server
