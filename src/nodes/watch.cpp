#include "nodes/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <utility>

#include "nodes/bytes.h"

namespace nibble::nodes {
namespace {

using Clock = std::chrono::steady_clock;

// First byte of a control message. kFailed is followed by the length of a text (one byte) and the text.
enum ControlMessage : uint8_t { kBeat, kDone, kFailed };
constexpr size_t kMostText{250};

Bytes failed_message(const std::string& why) {
  const std::string text = why.substr(0, kMostText);
  Writer message;
  message.number(uint8_t{kFailed});
  message.number(static_cast<uint8_t>(text.size()));
  message.text(text, text.size());
  return message.take();
}

}  // namespace

struct Watch::Peer {
  tcp::socket control;
  std::string name;  // "node 1 at 10.0.0.2:5000"
  Clock::time_point last_heard{Clock::now()};
};

Watch::Watch(std::function<void(const End&)> on_end)
    : on_end_(std::move(on_end)), work_(io_.get_executor()), next_beat_(io_) {
  asio::co_spawn(io_, beat(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

Watch::~Watch() {
  asio::post(io_, [this] { is_leaving_ = true; });
  io_.stop();
  thread_.join();
}

void Watch::add(int rank, tcp::socket control) {
  error_code error;
  const tcp::endpoint from = control.remote_endpoint(error);
  control.non_blocking(true, error);
  control.set_option(tcp::no_delay(true), error);
  std::string name = fmt::format("node {} at {}:{}", rank, from.address().to_string(), from.port());
  auto peer = std::make_unique<Peer>(Peer{std::move(control), std::move(name)});
  asio::post(io_, [this, added = std::move(peer)]() mutable {
    peers_.push_back(std::move(added));
    asio::co_spawn(io_, listen(*peers_.back()), asio::detached);
  });
}

asio::awaitable<void> Watch::listen(Peer& peer) {
  for (;;) {
    uint8_t message = kBeat;
    error_code error;
    co_await asio::async_read(peer.control, asio::buffer(&message, 1), told(error));
    if (error) break;
    peer.last_heard = Clock::now();
    if (message == kDone) co_return end_here({.is_done = true});
    if (message != kFailed) continue;
    uint8_t size = 0;
    co_await asio::async_read(peer.control, asio::buffer(&size, 1), told(error));
    Bytes text(size);
    if (!error) co_await asio::async_read(peer.control, asio::buffer(text), told(error));
    if (error) break;
    co_return lose_here(fmt::format("{}: {}", peer.name, Reader(text).text(size)));
  }
  lose_here(fmt::format("{} closed its connection", peer.name));
}

asio::awaitable<void> Watch::beat() {
  for (;;) {
    error_code error;
    next_beat_.expires_after(kHeartbeat);
    co_await next_beat_.async_wait(told(error));
    tell_all({kBeat});
    for (const auto& peer : peers_)
      if (Clock::now() - peer->last_heard > kSilence)
        co_return lose_here(fmt::format("{} has been silent for {} s", peer->name, kSilence.count()));
  }
}

// Never blocks, because the sockets are non-blocking; ignores errors. Messages are short, so a send buffer
// fills up only if the peer has stopped reading. Such a peer sends no heartbeat either, so it is soon lost.
void Watch::tell_all(const Bytes& message) {
  error_code ignored;
  for (const auto& peer : peers_) asio::write(peer->control, asio::buffer(message), ignored);
}

void Watch::lose_here(std::string why) {
  if (is_leaving_) return;
  tell_all(failed_message(why));
  end_here({.is_done = false, .why = std::move(why)});
}

void Watch::end_here(End end) {
  if (is_leaving_) return;
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = end;
  }
  ended_.notify_all();
  on_end_(end);
}

void Watch::lose(std::string why) {
  asio::post(io_, [this, text = std::move(why)] { lose_here(text); });
}

void Watch::leave(Bytes message) {
  std::promise<void> is_sent;
  asio::post(io_, [&] {
    is_leaving_ = true;
    tell_all(message);
    error_code ignored;
    for (const auto& peer : peers_) peer->control.shutdown(tcp::socket::shutdown_send, ignored);
    is_sent.set_value();
  });
  is_sent.get_future().wait();
}
void Watch::leave_done() { leave({kDone}); }
void Watch::leave_failed(const std::string& why) { leave(failed_message(why)); }

std::optional<End> Watch::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::optional<End> Watch::wait_end(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, patience, [&] { return end_.has_value(); });
  return end_;
}

}  // namespace nibble::nodes
