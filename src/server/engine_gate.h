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

#include "engine/engine.h"

namespace nibble::server {

class EngineRequest;

class EngineGate {
 public:
  // At most `max_requests` run and wait at once.
  EngineGate(boost::asio::any_io_executor executor, Engine& engine, size_t max_requests)
      : executor_(std::move(executor)), engine_(engine), max_requests_(max_requests) {}

  void deliver(Event event);
  void cancel_all();
  size_t num_requests() const { return requests_.size(); }  // that the engine has not ended

 private:
  friend class EngineRequest;
  boost::asio::any_io_executor executor_;
  Engine& engine_;
  size_t max_requests_;
  std::unordered_map<RequestId, EngineRequest*> requests_;  // null: nobody listens, but its end has not come
};

// A request that the engine has, for as long as somebody wants its events: who lets go of it cancels it.
class EngineRequest {
 public:
  // Throws ApiError (429) where the gate is full.
  EngineRequest(EngineGate& gate, Request request);
  ~EngineRequest();
  EngineRequest(const EngineRequest&) = delete;
  EngineRequest& operator=(const EngineRequest&) = delete;

  // The next event; nothing if none came in time, or if the request was abandoned meanwhile.
  boost::asio::awaitable<std::optional<Event>> next(std::chrono::seconds patience);

  // Its client has gone: the engine is told at once, and who waits for an event is woken.
  void abandon();
  bool is_abandoned() const { return is_abandoned_; }

 private:
  friend class EngineGate;
  void receive(Event event);

  EngineGate& gate_;
  RequestId id_{};
  std::deque<Event> events_;
  boost::asio::steady_timer event_came_;
  bool has_ended_{false}, is_abandoned_{false};
};

}  // namespace nibble::server
