// Takes an engine's events from its queue and puts each into the inbox of its request.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "engine/engine.h"

namespace nibble::library {

class Inbox {  // events of one request; thread-safe
 public:
  void put(Event event);
  // Waits for the next event until `deadline`, or without limit if it is absent.
  std::optional<Event> take(std::optional<std::chrono::steady_clock::time_point> deadline);

 private:
  std::mutex mutex_;
  std::condition_variable has_event_;
  std::deque<Event> events_;
};

class EventRouter {
 public:
  explicit EventRouter(Engine& engine);  // the engine must outlive the router
  ~EventRouter();                        // events of unfinished requests are lost

  RequestId submit(GenerationRequest request, std::shared_ptr<Inbox> inbox);  // thread-safe

 private:
  void run();
  void deliver(Event event);

  Engine& engine_;
  std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<Inbox>> inboxes_;
  std::atomic<bool> has_ended_{false};
  std::thread thread_;
};

}  // namespace nibble::library
