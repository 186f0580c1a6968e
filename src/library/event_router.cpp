#include "library/event_router.h"

#include <utility>
#include <variant>

#include "core/threads/thread_name.h"

namespace nibble::library {
namespace {

// While no event arrives, the thread checks at this interval whether the router has ended.
constexpr std::chrono::milliseconds kPollInterval{50};

}  // namespace

void Inbox::put(Event event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  has_event_.notify_all();
}

std::optional<Event> Inbox::take(std::optional<std::chrono::steady_clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  const auto has_events = [&] { return !events_.empty(); };
  if (!deadline)
    has_event_.wait(lock, has_events);
  else if (!has_event_.wait_until(lock, *deadline, has_events))
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

EventRouter::EventRouter(Engine& engine) : engine_(engine), thread_([this] { run(); }) {}

EventRouter::~EventRouter() {
  has_ended_ = true;
  thread_.join();
}

RequestId EventRouter::submit(GenerationRequest request, std::shared_ptr<Inbox> inbox) {
  // deliver() takes the lock too, so no event can arrive before its inbox is known.
  const std::scoped_lock lock(mutex_);
  const RequestId id = engine_.submit(std::move(request));
  inboxes_.emplace(id, std::move(inbox));
  return id;
}

void EventRouter::run() {
  name_thread("nibble events");
  while (!has_ended_)
    for (Event& event : engine_.wait_events(kPollInterval)) deliver(std::move(event));
}

void EventRouter::deliver(Event event) {
  const RequestId id = std::visit([](const auto& any) { return any.request; }, event);
  std::shared_ptr<Inbox> inbox;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = inboxes_.find(id);
    if (found == inboxes_.end()) return;
    inbox = found->second;
    if (!std::holds_alternative<TokenEvent>(event)) inboxes_.erase(found);
  }
  inbox->put(std::move(event));
}

}  // namespace nibble::library
