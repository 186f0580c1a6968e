#include "server/service/kept_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "core/memory/with_memory.h"

namespace nibble::server {
namespace asio = boost::asio;

namespace {

constexpr std::string_view kEventEnd{"\n\n"};

size_t bytes_of_event(const std::string& event) { return sizeof event + event.size(); }
// Estimates the bytes of an answer without its events, including its entries in the store.
size_t bytes_of_entry(const OwnedId& id) {
  return sizeof(KeptAnswer) + 256 + 2 * (id.owner.size() + id.id.size());
}

}  // namespace

KeptAnswer::KeptAnswer(KeptAnswers& store, const asio::any_io_executor& executor, OwnedId id, Kind kind)
    : store_(&store),
      id_(std::move(id)),
      kind_(std::move(kind)),
      expiry_(executor),
      readers_moved_(executor) {}

void KeptAnswer::append(std::string_view events) {
  has_begun_ = true;
  for (size_t end = 0; !events.empty(); events.remove_prefix(end)) {
    end = events.find(kEventEnd);
    end = end == std::string_view::npos ? events.size() : end + kEventEnd.size();
    const std::string_view event = events.substr(0, end);
    if (event.starts_with(':')) continue;
    add_event(kind_.has_id_lines ? fmt::format("id: {}\n{}", next(), event) : std::string(event));
  }
  wake_readers();
}

asio::awaitable<void> KeptAnswer::wait_for_readers() {
  while (store_ && store_->is_full() && first_unread() < next() && !never_waits_) {
    boost::system::error_code cancelled;
    readers_moved_.expires_at(asio::steady_timer::time_point::max());
    co_await readers_moved_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

void KeptAnswer::stop_waiting() {
  never_waits_ = true;
  readers_moved_.cancel();
}

void KeptAnswer::add_event(std::string event) {
  const size_t num_bytes = bytes_of_event(event);
  events_.push_back(std::move(event));
  num_bytes_ += num_bytes;
  if (store_)
    store_->grow(num_bytes);
  else if (readers_.empty())
    drop_first();
}

size_t KeptAnswer::drop_first() {
  const size_t num_bytes = bytes_of_event(events_.front());
  events_.pop_front();
  ++first_;
  num_bytes_ -= num_bytes;
  return num_bytes;
}

void KeptAnswer::end(int status) {
  if (has_ended()) return;
  status_ = status;
  kind_.stop = nullptr;
  wake_readers();
  if (readers_.empty()) begin_to_expire();
}

void KeptAnswer::fail(HttpError error) {
  failure_ = std::move(error);
  end(failure_->status);
}

void KeptAnswer::break_off() {
  if (has_ended()) return;
  is_broken_off_ = true;
  end(500);
}

std::string KeptAnswer::read(size_t& number, size_t most_bytes) const {
  std::string text;
  do {
    text += events_[number - first_];
    ++number;
  } while (number < next() && text.size() < most_bytes);
  return text;
}

void KeptAnswer::wake_readers() {
  for (Reader* reader : readers_) reader->wake();
}

size_t KeptAnswer::first_unread() const {
  size_t number = next();
  for (const Reader* reader : readers_) number = std::min(number, reader->number_);
  return number;
}

void KeptAnswer::on_readers_moved() {
  if (store_) store_->shrink();
  readers_moved_.cancel();
}

void KeptAnswer::begin_to_expire() {
  if (!store_ || (!has_ended() && !kind_.ends_unread)) return;
  expiry_.expires_after(store_->limits_.time);
  with_memory([&] {
    expiry_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const std::shared_ptr<KeptAnswer> answer = weak.lock();
      if (error || !answer || !answer->store_ || !answer->readers_.empty()) return;
      answer->store_->erase(answer->id_);
    });
  });
}

KeptAnswer::Reader::Reader(std::shared_ptr<KeptAnswer> answer, size_t number)
    : answer_(std::move(answer)), number_(number), changed_(answer_->expiry_.get_executor()) {
  answer_->readers_.push_back(this);
  answer_->expiry_.cancel();
}

KeptAnswer::Reader::~Reader() {
  std::erase(answer_->readers_, this);
  if (answer_->readers_.empty()) answer_->begin_to_expire();
  answer_->on_readers_moved();
}

asio::awaitable<bool> KeptAnswer::Reader::wait(std::chrono::milliseconds patience) {
  boost::system::error_code error;
  changed_.expires_after(patience);
  co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return error == asio::error::operation_aborted;
}

void KeptAnswer::Reader::wake() { changed_.cancel(); }

void KeptAnswer::Reader::advance(size_t number) {
  number_ = number;
  answer_->on_readers_moved();
}

std::shared_ptr<KeptAnswer> KeptAnswers::add(const asio::any_io_executor& executor, OwnedId id,
                                             KeptAnswer::Kind kind) {
  const auto answer = std::make_shared<KeptAnswer>(*this, executor, std::move(id), std::move(kind));
  std::list<std::shared_ptr<KeptAnswer>> added{answer};
  by_id_[answer->id_] = added.begin();
  answers_.splice(answers_.end(), added);  // needs no memory: an answer is in both containers or in neither
  answer->num_bytes_ = bytes_of_entry(answer->id_);
  grow(answer->num_bytes_);
  return answer;
}

std::shared_ptr<KeptAnswer> KeptAnswers::find(const OwnedId& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : *found->second;
}

bool KeptAnswers::erase(const OwnedId& id) {
  const std::shared_ptr<KeptAnswer> answer = find(id);
  if (!answer) return false;
  const std::function<void()> stop = std::move(answer->kind_.stop);
  drop(answer);
  if (!answer->has_ended() && stop) stop();
  return true;
}

void KeptAnswers::clear() {
  while (!answers_.empty()) drop(answers_.front());
}

void KeptAnswers::drop(const std::shared_ptr<KeptAnswer>& answer) {
  const std::shared_ptr<KeptAnswer> held = answer;  // `answer` may be the element that is erased here
  num_bytes_ -= held->num_bytes_;
  held->store_ = nullptr;
  held->expiry_.cancel();
  held->readers_moved_.cancel();
  const auto found = by_id_.find(held->id_);
  answers_.erase(found->second);
  by_id_.erase(found);
}

void KeptAnswers::grow(size_t num_bytes) {
  num_bytes_ += num_bytes;
  shrink();
}

// Drops data until the store is within its limit. First drops answers that have ended and that no client
// reads, oldest first. Then drops events that all readers of their answer have received: each time the oldest
// event of the largest answer that has such events.
void KeptAnswers::shrink() {
  while (is_full()) {
    const auto ended = std::ranges::find_if(
        answers_, [](const auto& answer) { return answer->has_ended() && answer->readers_.empty(); });
    if (ended != answers_.end()) {
      drop(*ended);
      continue;
    }
    KeptAnswer* largest = nullptr;
    for (const auto& answer : answers_)
      if (answer->first() < answer->first_unread() && (!largest || answer->num_bytes_ > largest->num_bytes_))
        largest = answer.get();
    if (!largest) return;
    num_bytes_ -= largest->drop_first();
  }
}

}  // namespace nibble::server
