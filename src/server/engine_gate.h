// Between the engine and the coroutines of the I/O thread: who is in, how many may be, and whose event that is. All of it
// belongs to the I/O thread.
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
#include "server/metrics.h"

namespace nibble::server {

class EngineRequest;

class EngineGate {
 public:
  // At most `max_choices` run and wait at once: each answer to a prompt counts, whoever asked for it.
  EngineGate(boost::asio::any_io_executor executor, Engine& engine, Metrics& metrics, size_t max_choices)
      : executor_(std::move(executor)), engine_(engine), metrics_(metrics), max_choices_(max_choices) {}

  const Engine& engine() const { return engine_; }
  void need_room(size_t num_choices) const;  // throws ApiError (429) where there is none for so many more
  void deliver(Event event);
  void cancel_all();
  size_t num_choices() const { return choices_.size(); }  // that the engine has not ended

 private:
  friend class EngineRequest;
  struct Listener {
    EngineRequest* request;  // null: nobody listens, but the end has not come
    size_t choice;
    bool is_answered{false};  // nobody listens because they have all they wanted
    Stopwatch clock;          // since it was submitted
    double last_token_seconds{0};
  };
  void measure(Listener& listener, const Event& event);

  boost::asio::any_io_executor executor_;
  Engine& engine_;
  Metrics& metrics_;
  size_t max_choices_;
  std::unordered_map<RequestId, Listener> choices_;
};

// Answers that the engine works on, for as long as somebody wants their events: who lets go of them cancels them.
class EngineRequest {
 public:
  // `num_choices` answers to each prompt: those to the first, those to the second, ... Throws ApiError where the engine
  // can't run one of them (400) or the gate has no room for all (429); then none is run.
  EngineRequest(EngineGate& gate, std::vector<Request> prompts, int num_choices);
  ~EngineRequest();
  EngineRequest(const EngineRequest&) = delete;
  EngineRequest& operator=(const EngineRequest&) = delete;

  size_t num_choices() const { return ids_.size(); }

  struct ChoiceEvent {
    size_t choice;
    Event event;
  };
  // The next event of any choice; nothing if none came in time, or if the request was abandoned meanwhile.
  boost::asio::awaitable<std::optional<ChoiceEvent>> next(std::chrono::milliseconds patience);

  // No event of this choice will come any more; it is cancelled. `is_answered`: all that was wanted of it has come.
  void let_go(size_t choice, bool is_answered);

  // Its client has gone: the engine is told at once, and who waits for an event is woken.
  void abandon();
  bool is_abandoned() const { return is_abandoned_; }

 private:
  friend class EngineGate;
  void receive(size_t choice, Event event);

  EngineGate& gate_;
  std::vector<std::optional<RequestId>> ids_;  // nothing: it has ended, or was let go
  std::deque<ChoiceEvent> events_;
  boost::asio::steady_timer event_came_;
  bool is_abandoned_{false};
};

}  // namespace nibble::server
