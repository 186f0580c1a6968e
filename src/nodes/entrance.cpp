#include "nodes/entrance.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "core/program/log.h"

namespace nibble::nodes {
namespace {

constexpr std::chrono::seconds kGreetingPatience{5};
constexpr int kMostGreeted{32};  // concurrent handshakes; further connections are closed at once

std::string text_of(const tcp::endpoint& endpoint) {
  return fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
}

}  // namespace

Entrance::Entrance(asio::io_context& io, const tcp::endpoint& address, int num_nodes, HeadSide head,
                   std::function<void(const Joining&, tcp::socket)> admit)
    : io_(io),
      acceptor_(io),
      head_(std::move(head)),
      admit_(std::move(admit)),
      followers_(static_cast<size_t>(num_nodes)),
      num_missing_(2 * (num_nodes - 1)) {
  try {
    acceptor_.open(address.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(address);
    acceptor_.listen();
  } catch (const boost::system::system_error& error) {
    throw InputError("--head {}: node 0 can't listen on this address: {}", text_of(address),
                     error.code().message());
  }
}

void Entrance::open() {
  asio::co_spawn(
      io_, [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->accept(); },
      asio::detached);
}

std::string Entrance::missing() const {
  std::vector<size_t> ranks;
  for (size_t rank = 1; rank < followers_.size(); ++rank)
    if (!followers_[rank].data) ranks.push_back(rank);
  return fmt::format("node{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

asio::awaitable<void> Entrance::accept() {
  for (;;) {
    tcp::socket connection(io_);
    error_code error;
    co_await acceptor_.async_accept(connection, told(error));
    if (error) {  // too many open files, for example
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(told(error));
    } else if (num_greeted_ < kMostGreeted) {
      asio::co_spawn(
          io_,
          [self = shared_from_this(), taken = std::move(connection)]() mutable -> asio::awaitable<void> {
            co_await self->greet(std::move(taken));
          },
          asio::detached);
    }
  }
}

asio::awaitable<void> Entrance::greet(tcp::socket connection) {
  error_code ignored;
  const std::string from = text_of(connection.remote_endpoint(ignored));
  const auto socket = std::make_shared<tcp::socket>(std::move(connection));
  asio::steady_timer limit(io_, kGreetingPatience);
  limit.async_wait([socket](const error_code& cancelled) {
    error_code closed;
    if (!cancelled) socket->close(closed);
  });
  ++num_greeted_;
  std::optional<Joining> reserved;
  HeadSide head = head_;
  head.judge = [&](const Joining& joining) {
    const Answer answer = judge(joining);
    if (answer == Answer::kWelcome) has_joined(*(reserved = joining)) = true;
    return answer;
  };
  try {
    const Joining joining = co_await receive_follower(*socket, head);
    limit.cancel();
    admit_(joining, std::move(*socket));
    if (joining.channel == Channel::kData) log::info("node {} has joined from {}", joining.rank, from);
    if (--num_missing_ == 0) all_here_.set_value();
  } catch (const InputError& error) {
    log::warn("a connection from {} was refused: {}", from, error.what());
    if (reserved) has_joined(*reserved) = false;
  }
  --num_greeted_;
}

bool& Entrance::has_joined(const Joining& joining) {
  Follower& follower = followers_[static_cast<size_t>(joining.rank)];
  return joining.channel == Channel::kControl ? follower.control : follower.data;
}

Answer Entrance::judge(const Joining& joining) const {
  if (joining.rank < 1 || joining.rank >= static_cast<int>(followers_.size())) return Answer::kNoSuchRank;
  const Follower& follower = followers_[static_cast<size_t>(joining.rank)];
  const bool is_data = joining.channel == Channel::kData;
  return (is_data ? follower.data || !follower.control : follower.control) ? Answer::kTaken
                                                                           : Answer::kWelcome;
}

}  // namespace nibble::nodes
