#include "server/service/engine_gate.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>
#include <utility>
#include <variant>

#include "server/http/http_error.h"

namespace nibble::server {
namespace asio = boost::asio;

void EngineGate::deliver(Event event) {
  const RequestId id = std::visit([](const auto& any) { return any.request; }, event);
  const auto found = choices_.find(id);
  if (found == choices_.end()) return;
  measure(found->second, event);
  const Listener listener = found->second;
  if (is_last(event)) choices_.erase(found);
  if (listener.generation) listener.generation->receive(listener.choice, std::move(event));
}

void EngineGate::measure(Listener& listener, const Event& event) {
  const double seconds = listener.clock.seconds();
  if (const auto* finished = std::get_if<FinishedEvent>(&event)) {
    const bool is_told = listener.dropped_as != Outcome::kAbort;
    metrics_.observe_end(is_told ? listener.dropped_as : outcome_of(finished->reason), seconds, *finished);
  } else if (std::holds_alternative<FailedEvent>(event)) {
    metrics_.observe_end(Outcome::kError, seconds);
  } else if (std::holds_alternative<TokenEvent>(event)) {
    if (listener.last_token_seconds == 0)
      metrics_.observe_first_token(seconds);
    else
      metrics_.observe_next_token(seconds - listener.last_token_seconds);
    listener.last_token_seconds = seconds;
    ++listener.num_tokens;
  }
}

void EngineGate::check_room(size_t num_choices) const {
  if (choices_.size() + num_choices > max_choices_)
    throw HttpError(429, "the server is full: {} answers are running or waiting; try again later",
                    choices_.size());
}

void EngineGate::check_count(size_t num_choices) const {
  if (num_choices > max_choices_)
    throw HttpError(400, "the request needs {} answers at once, but this server accepts at most {}",
                    num_choices, max_choices_);
}

std::vector<EngineGate::InWork> EngineGate::in_work() const {
  std::vector<InWork> answers;
  for (const auto& [id, listener] : choices_)
    answers.push_back({listener.clock.seconds(), listener.num_tokens});
  std::ranges::sort(answers,
                    [](const InWork& one, const InWork& other) { return one.seconds > other.seconds; });
  return answers;
}

void EngineGate::cancel_all() {
  for (const auto& [id, listener] : choices_) engine_.cancel(id);
}

void EngineGate::end_all() {
  while (!choices_.empty())
    deliver(FinishedEvent{.request = choices_.begin()->first, .reason = FinishReason::kCancelled});
}

// Delegates to the other constructor, so that the destructor cancels submitted answers if this one throws.
Generation::Generation(EngineGate& gate, std::vector<GenerationRequest> prompts, int num_choices)
    : Generation(gate) {
  const size_t num_wanted = prompts.size() * static_cast<size_t>(num_choices);
  gate_.check_count(num_wanted);
  for (const GenerationRequest& prompt : prompts)
    if (const auto fault = gate_.engine_.fault_of(prompt)) throw HttpError(400, "{}", *fault);
  gate_.check_room(num_wanted);
  ids_.reserve(num_wanted);
  submitted_ = {};
  for (GenerationRequest& prompt : prompts) submit(std::move(prompt), num_choices);
}

void Generation::submit(GenerationRequest prompt, int num_choices) {
  const Stopwatch clock;  // started before the engine's clock: the total must not be less than its parts
  const std::vector<RequestId> ids = gate_.engine_.submit_choices(std::move(prompt), num_choices);
  for (size_t n = 0; n < ids.size(); ++n) {
    try {
      gate_.choices_.emplace(ids[n],
                             EngineGate::Listener{.generation = this, .choice = ids_.size(), .clock = clock});
    } catch (const std::bad_alloc&) {
      for (; n < ids.size(); ++n) gate_.engine_.cancel(ids[n]);  // Cancel the answers that have no listener.
      throw;
    }
    ids_.emplace_back(ids[n]);
  }
}

Generation::~Generation() {
  for (size_t choice = 0; choice < ids_.size(); ++choice) drop_choice(choice, Outcome::kAbort);
}

asio::awaitable<std::optional<Generation::ChoiceEvent>> Generation::next(std::chrono::milliseconds patience) {
  if (events_.empty() && !is_abandoned_ && !has_lost_event_) {
    boost::system::error_code cancelled;
    event_came_.expires_after(patience);
    co_await event_came_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  if (has_lost_event_) throw std::bad_alloc();
  if (events_.empty() || is_abandoned_) co_return std::nullopt;
  std::optional<ChoiceEvent> event = std::move(events_.front());
  events_.pop_front();
  co_return event;
}

std::vector<size_t> Generation::open_choices() const {
  std::vector<size_t> open;
  for (size_t choice = 0; choice < ids_.size(); ++choice)
    if (ids_[choice]) open.push_back(choice);
  return open;
}

void Generation::drop_choice(size_t choice, Outcome outcome) {
  std::erase_if(events_, [&](const ChoiceEvent& event) { return event.choice == choice; });
  if (!ids_[choice]) return;
  EngineGate::Listener& listener = gate_.choices_.at(*ids_[choice]);
  listener.generation = nullptr;
  listener.dropped_as = outcome;
  gate_.engine_.cancel(*ids_[choice]);
  ids_[choice].reset();
}

void Generation::abandon() {
  is_abandoned_ = true;
  for (size_t choice = 0; choice < ids_.size(); ++choice) drop_choice(choice, Outcome::kAbort);
  event_came_.cancel();
}

void Generation::receive(size_t choice, Event event) {
  if (is_last(event)) ids_[choice].reset();
  try {
    events_.push_back({choice, std::move(event)});
  } catch (const std::bad_alloc&) {
    has_lost_event_ = true;
  }
  event_came_.cancel();
}

}  // namespace nibble::server
