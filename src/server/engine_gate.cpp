#include "server/engine_gate.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>
#include <variant>

#include "server/api_error.h"

namespace nibble::server {
namespace asio = boost::asio;

void EngineGate::deliver(Event event) {
  const RequestId id = std::visit([](const auto& any) { return any.request; }, event);
  const bool is_end = !std::holds_alternative<TokenEvent>(event);
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  EngineRequest* request = found->second;
  if (is_end) requests_.erase(found);
  if (request) request->receive(std::move(event));
}

void EngineGate::cancel_all() {
  for (const auto& [id, request] : requests_) engine_.cancel(id);
}

EngineRequest::EngineRequest(EngineGate& gate, Request request) : gate_(gate), event_came_(gate.executor_) {
  if (gate_.requests_.size() >= gate_.max_requests_)
    throw ApiError(429, "the server is full: {} requests run or wait; try again later",
                   gate_.requests_.size());
  id_ = gate_.engine_.submit(std::move(request));
  gate_.requests_.emplace(id_, this);
}

EngineRequest::~EngineRequest() {
  if (has_ended_) return;
  gate_.requests_[id_] = nullptr;
  if (!is_abandoned_) gate_.engine_.cancel(id_);
}

asio::awaitable<std::optional<Event>> EngineRequest::next(std::chrono::seconds patience) {
  if (events_.empty() && !is_abandoned_) {
    boost::system::error_code cancelled;
    event_came_.expires_after(patience);
    co_await event_came_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  if (events_.empty() || is_abandoned_) co_return std::nullopt;
  std::optional<Event> event = std::move(events_.front());
  events_.pop_front();
  co_return event;
}

void EngineRequest::abandon() {
  is_abandoned_ = true;
  if (!has_ended_) gate_.engine_.cancel(id_);
  event_came_.cancel();
}

void EngineRequest::receive(Event event) {
  has_ended_ = !std::holds_alternative<TokenEvent>(event);
  events_.push_back(std::move(event));
  event_came_.cancel();
}

}  // namespace nibble::server
