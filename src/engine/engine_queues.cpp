#include "engine/engine_queues.h"

#include <type_traits>
#include <utility>

#include "core/memory/with_memory.h"
#include "core/numbers/random.h"

namespace nibble {

std::vector<RequestId> EngineQueues::submit(GenerationRequest request, int num_choices,
                                            const std::optional<std::string>& fault) {
  std::vector<RequestId> ids(static_cast<size_t>(num_choices));
  std::vector<Order> added(fault ? 0 : ids.size());
  const uint64_t seed = request.sample.seed;
  for (size_t choice = 0; choice < added.size(); ++choice) {
    request.sample.seed = choice == 0 ? seed : random_bits(seed, choice);
    added[choice].request = request;
  }
  {
    const std::lock_guard lock(mutex_);  // if memory runs out here, no request is queued
    orders_.reserve(orders_.size() + added.size());
    for (RequestId& id : ids) id = static_cast<RequestId>(++num_requests_);
    for (size_t choice = 0; choice < added.size(); ++choice) {
      added[choice].id = ids[choice];
      orders_.push_back(std::move(added[choice]));
      progress_.begin_work();
    }
  }
  if (!fault) {
    order_came_.notify_one();
    return ids;
  }
  for (const RequestId id : ids)
    with_memory([&] {
      const std::lock_guard lock(mutex_);
      events_.push_back(FailedEvent{id, *fault, true});
    });
  event_came_.notify_one();
  return ids;
}

void EngineQueues::cancel(RequestId request) {
  with_memory([&] {
    const std::lock_guard lock(mutex_);
    orders_.push_back({.id = request});
    if (std::erase(needing_step_, request) > 0 && needing_step_.empty()) is_unneeded_ = true;
  });
  order_came_.notify_one();
}

void EngineQueues::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    is_unneeded_ = true;
  }
  order_came_.notify_one();
}

EngineState EngineQueues::state() const {
  const std::lock_guard lock(mutex_);
  EngineState state = state_;
  state.progress = progress_.read();
  return state;
}

std::optional<Event> EngineQueues::wait_event(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!event_came_.wait_for(lock, timeout, [&] { return !events_.empty(); })) return {};
  std::optional<Event> event = std::move(events_[num_taken_++]);
  if (num_taken_ == events_.size()) {
    events_.clear();
    num_taken_ = 0;
  }
  return event;
}

std::vector<Event> EngineQueues::wait_events(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  event_came_.wait_for(lock, timeout, [&] { return !events_.empty(); });
  events_.erase(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(std::exchange(num_taken_, 0)));
  return std::exchange(events_, {});
}

std::optional<std::vector<EngineQueues::Order>> EngineQueues::take_orders(bool is_idle) {
  std::unique_lock lock(mutex_);
  if (orders_.empty() && is_idle) progress_.end_work();
  order_came_.wait(lock, [&] { return is_closing_ || !orders_.empty() || !is_idle; });
  if (is_closing_) return {};
  return std::exchange(orders_, {});
}

void EngineQueues::wait_for_order(std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  order_came_.wait_for(lock, timeout, [&] { return is_closing_ || !orders_.empty(); });
}

EngineQueues::NeededStep::NeededStep(EngineQueues& queues, std::vector<RequestId> requests)
    : queues_(queues) {
  const std::lock_guard lock(queues.mutex_);
  for (const Order& order : queues.orders_)
    if (!order.request) std::erase(requests, order.id);
  queues.needing_step_.swap(requests);
  queues.is_unneeded_ = queues.is_closing_ || queues.needing_step_.empty();
}

EngineQueues::NeededStep::~NeededStep() {
  const std::lock_guard lock(queues_.mutex_);
  queues_.needing_step_.clear();
}

void EngineQueues::put(Event event) {
  with_memory([&] { unsent_.push_back(std::move(event)); });  // if this throws, `event` is unchanged
}

void EngineQueues::reserve(size_t num_events) {
  with_memory([&] { unsent_.reserve(num_events); });
}

void EngineQueues::publish(EngineState state) {
  static_assert(std::is_nothrow_move_constructible_v<Event>,
                "else insert() below could move some events only");
  const bool has_events = !unsent_.empty();
  with_memory([&] {
    const std::lock_guard lock(mutex_);
    // If memory runs out here, no event is moved, so the next attempt sends each event once.
    if (events_.empty())
      events_.swap(unsent_);
    else
      events_.insert(events_.end(), std::move_iterator(unsent_.begin()), std::move_iterator(unsent_.end()));
    if (state.steps.empty()) state.steps.swap(state_.steps);
    if (state.launches.empty()) state.launches.swap(state_.launches);
    state_ = std::move(state);
  });
  unsent_.clear();
  if (has_events) event_came_.notify_one();
}

}  // namespace nibble
