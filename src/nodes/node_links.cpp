#include "nodes/node_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <charconv>
#include <future>
#include <thread>
#include <utility>

#include "core/program/log.h"
#include "core/system/clock.h"
#include "nodes/entrance.h"
#include "nodes/handshake.h"

namespace nibble::nodes {
namespace {

// Timeout for data from another node in a step; normally nodes lag each other by half a layer at most.
constexpr std::chrono::seconds kStepPatience{20};
constexpr std::chrono::seconds kTryPatience{5};  // timeout of a connection attempt, and of a handshake
constexpr std::chrono::milliseconds kRetryPause{50};
// A node that waits longer than this logs which nodes are missing.
constexpr double kQuietSeconds{2};
// Time for the watch to report why a transfer failed. If a node's process is killed, both of its connections
// close at the same time, so the watch detects the loss immediately.
constexpr std::chrono::seconds kVerdictPatience{1};

std::string text_of_endpoint(const tcp::endpoint& endpoint) {
  const bool is_v6 = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.address().to_string(), is_v6 ? "]" : "",
                     endpoint.port());
}

// Runs the coroutine on `io`. Closes the socket after kTryPatience, which ends the coroutine.
template <typename Result>
Result run(asio::io_context& io, tcp::socket& socket, asio::awaitable<Result> work) {
  std::future<Result> result = asio::co_spawn(io, std::move(work), asio::use_future);
  io.restart();
  io.run_for(kTryPatience);
  error_code ignored;
  if (!io.stopped()) socket.close(ignored);
  io.run();
  return result.get();
}

// Connects to the head. Retries until the head answers or `patience` has passed.
tcp::socket connect(asio::io_context& io, const tcp::endpoint& head, std::chrono::seconds patience) {
  const Stopwatch waiting;
  for (bool has_told = false;;) {
    tcp::socket socket(io);
    error_code error = asio::error::timed_out;
    socket.async_connect(head, [&](const error_code& ended) { error = ended; });
    io.restart();
    io.run_for(kTryPatience);
    if (!io.stopped()) {
      socket.close();
      io.run();  // wait for the handler, which writes to this iteration's `error`
      error = asio::error::timed_out;
    }
    // A head on this machine may not listen yet: then TCP can connect the socket to itself.
    if (!error && socket.local_endpoint(error) != head) return socket;
    if (!error) error = asio::error::connection_refused;
    if (waiting.seconds() > static_cast<double>(patience.count()))
      throw NodeLost(fmt::format("no head answers at {}: {}", text_of_endpoint(head), error.message()));
    if (!has_told && waiting.seconds() > kQuietSeconds) {
      log::warn("waiting for the head at {}: {}", text_of_endpoint(head), error.message());
      has_told = true;
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace

tcp::endpoint read_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const bool is_v6 = host.starts_with('[') && host.ends_with(']');
  if (is_v6) host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  const char *first = text.data() + std::min(colon + 1, text.size()), *last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(first, last, port);
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (colon == std::string::npos || failure != std::errc{} || end != last || port == 0 || error ||
      address.is_v6() != is_v6)
    throw InputError("--head '{}': expected an address of node 0 and a port, such as 192.168.100.1:7000",
                     text);
  if (address.is_unspecified() || address.is_multicast())
    throw InputError("--head '{}': expected one address of node 0: that of the network between the nodes",
                     text);
  return {address, port};
}

NodeLinks::NodeLinks(const NodeOptions& options)
    : shares_(options.shares),
      rank_(options.rank),
      group_(options.group),
      headers_(options.shares.size()),
      watch_([this, on_lost = options.on_lost](const End& end) {
        wire_.close();
        if (!end.is_done) on_lost(end.why);
      }) {}

NodeLinks::~NodeLinks() = default;

std::shared_ptr<NodeLinks> NodeLinks::lead(const NodeOptions& options, const Room& room) {
  const std::shared_ptr<NodeLinks> links(new NodeLinks(options));
  NodeLinks* self = links.get();
  links->room_ = room;
  const auto entrance =
      std::make_shared<Entrance>(links->watch_.io(), options.head, links->num_nodes(),
                                 HeadSide{options.secret, options.facts, room, options.group, {}},
                                 [self](const Joining& joining, tcp::socket connection) {
                                   if (joining.channel == Channel::kControl)
                                     self->watch_.add(joining.rank, std::move(connection));
                                   else
                                     self->wire_.add(joining.rank, std::move(connection));
                                 });
  std::future<void> all_here = entrance->all_are_here();
  entrance->open();
  const auto missing = [&] {
    std::promise<std::string> text;
    asio::post(links->watch_.io(), [&] { text.set_value(entrance->missing()); });
    return text.get_future().get();
  };
  const Stopwatch waiting;
  for (bool has_told = false; all_here.wait_for(kRetryPause) != std::future_status::ready;) {
    if (const auto end = links->watch_.end()) throw NodeLost(end->why);
    if (!has_told && waiting.seconds() > kQuietSeconds) {
      log::warn("waiting for {} at {}", missing(), text_of_endpoint(options.head));
      has_told = true;
    }
    if (waiting.seconds() < static_cast<double>(options.patience.count())) continue;
    const std::string why = fmt::format("{} did not join at {} within {} s", missing(),
                                        text_of_endpoint(options.head), options.patience.count());
    links->give_up(why);
    throw NodeLost(why);
  }
  return links;
}

std::shared_ptr<NodeLinks> NodeLinks::join(const NodeOptions& options) {
  const std::shared_ptr<NodeLinks> links(new NodeLinks(options));
  asio::io_context io;
  const auto enter = [&](Channel channel) {
    tcp::socket socket = connect(io, options.head, options.patience);
    const Invitation invitation = run(io, socket,
                                      join_head(socket, options.secret, options.facts,
                                                {options.rank, channel}, text_of_endpoint(options.head)));
    links->room_ = invitation.room;
    links->group_ = invitation.group;
    return socket;
  };
  tcp::socket control = enter(Channel::kControl);
  links->watch_.add(0, tcp::socket(links->watch_.io(), options.head.protocol(), control.release()));
  links->wire_.add(0, enter(Channel::kData));
  return links;
}

void NodeLinks::add_up(std::span<float> terms) {
  const size_t count = terms.size(), bytes = terms.size_bytes(), ranks = shares_.size();
  const Header header = next(Kind::kSum, bytes);
  floats_.resize(count * ranks);  // [rank][count]; the part of this rank is unused
  const auto of_rank = [&](size_t rank) { return std::span(floats_).subspan(rank * count, count); };
  const auto buffer_of = [](auto numbers) { return asio::buffer(numbers.data(), numbers.size_bytes()); };
  if (is_head()) {
    for (size_t rank = 1; rank < ranks; ++rank) {
      const int peer = static_cast<int>(rank);
      wire_.send(peer, {asio::buffer(&header, sizeof header), asio::buffer(terms.data(), bytes)});
      wire_.receive(peer, {asio::buffer(&headers_[rank], sizeof header), buffer_of(of_rank(rank))});
    }
    must_wait();
    for (size_t rank = 1; rank < ranks; ++rank) check(headers_[rank], header, static_cast<int>(rank));
    if (ranks > 2) {  // send each follower the terms of the other followers, by rank
      for (size_t to = 1; to < ranks; ++to) {
        std::vector<asio::const_buffer> parts;
        for (size_t rank = 1; rank < ranks; ++rank)
          if (rank != to) parts.push_back(buffer_of(of_rank(rank)));
        wire_.send(static_cast<int>(to), std::move(parts));
      }
      must_wait();
    }
  } else {
    std::vector<asio::mutable_buffer> parts{asio::buffer(headers_.data(), sizeof header)};
    for (size_t rank = 0; rank < ranks; ++rank)
      if (static_cast<int>(rank) != rank_) parts.push_back(buffer_of(of_rank(rank)));
    wire_.send(0, {asio::buffer(&header, sizeof header), asio::buffer(terms.data(), bytes)});
    wire_.receive(0, std::move(parts));
    must_wait();
    check(headers_[0], header, 0);
  }
  const std::span<float> sums = is_head() ? terms : of_rank(0);
  for (size_t rank = 1; rank < ranks; ++rank) {
    const std::span<const float> more = static_cast<int>(rank) == rank_ ? terms : of_rank(rank);
    for (size_t i = 0; i < count; ++i) sums[i] += more[i];
  }
  if (!is_head()) std::ranges::copy(sums, terms.begin());
}

void NodeLinks::collect(View<float, 2> logits) {
  const auto rows = static_cast<size_t>(logits.shape[0]);
  // Calls body(share, first): on the head for each follower, on a follower for its own share. floats_[first]
  // is the first logit of that share. Returns the number of logits.
  const auto for_each_follower = [&](const auto& body) {
    size_t first = 0;
    for (const Share& share : shares_) {
      if (share.rank == 0 || (!is_head() && share.rank != rank_)) continue;
      body(share, first);
      first += rows * static_cast<size_t>(share.vocab.count);
    }
    return first;
  };
  floats_.resize(for_each_follower([](const Share&, size_t) {}));
  const auto bytes_of = [&](const Share& of) {
    return rows * static_cast<size_t>(of.vocab.count) * sizeof(float);
  };
  const auto copy = [&](const Share& of, size_t first, bool is_received) {
    const auto count = static_cast<size_t>(of.vocab.count);
    for (size_t row = 0; row < rows; ++row) {
      float* packed = floats_.data() + first + row * count;
      float* columns = logits.row(static_cast<ptrdiff_t>(row)) + of.vocab.first;
      if (is_received)
        std::copy_n(packed, count, columns);
      else
        std::copy_n(columns, count, packed);
    }
  };
  const uint64_t number = ++num_messages_;
  const auto header_of = [&](const Share& of) {
    return Header{Kind::kLogits, static_cast<uint32_t>(bytes_of(of)), number};
  };
  Header own{};
  for_each_follower([&](const Share& of, size_t first) {
    auto payload = asio::buffer(floats_.data() + first, bytes_of(of));
    if (is_head()) {
      Header& got = headers_[static_cast<size_t>(of.rank)];
      return wire_.receive(of.rank, {asio::buffer(&got, sizeof got), payload});
    }
    copy(of, first, /*is_received=*/false);
    own = header_of(of);
    wire_.send(0, {asio::buffer(&own, sizeof own), payload});
  });
  must_wait();
  if (!is_head()) return;
  for_each_follower([&](const Share& of, size_t first) {
    check(headers_[static_cast<size_t>(of.rank)], header_of(of), of.rank);
    copy(of, first, /*is_received=*/true);
  });
}

void NodeLinks::lose(const std::string& why) {
  if (!watch_.wait_end(kVerdictPatience)) watch_.lose(why);
}

void NodeLinks::check_alive() const {
  // If the head is done, this node has all data for its current step, and the step ends normally.
  if (const auto end = watch_.end(); end && !end->is_done) throw NodeLost(end->why);
}

void NodeLinks::meet() {
  const Header header = next(Kind::kReady, 0);
  for (int rank = 1; rank < num_nodes() && is_head(); ++rank)
    wire_.receive(rank, {asio::buffer(&headers_[static_cast<size_t>(rank)], sizeof header)});
  if (!is_head()) wire_.send(0, {asio::buffer(&header, sizeof header)});
  // No timeout: loading may take long, and the watch reports lost nodes.
  if (!wait(std::nullopt)) throw NodeLost("the head has ended");
  for (int rank = 1; rank < num_nodes() && is_head(); ++rank)
    check(headers_[static_cast<size_t>(rank)], header, rank);
}

void NodeLinks::send_step(const Bytes& batch) {
  const Header header = next(Kind::kStep, batch.size());
  for (int rank = 1; rank < num_nodes(); ++rank)
    wire_.send(rank, {asio::buffer(&header, sizeof header), asio::buffer(batch)});
  must_wait();
}

std::optional<Bytes> NodeLinks::receive_step(size_t most_bytes) {
  Header& header = headers_[0];
  wire_.receive(0, {asio::buffer(&header, sizeof header)});
  if (!wait(std::nullopt)) return std::nullopt;
  check(header, next(Kind::kStep, std::min<size_t>(header.bytes, most_bytes)), 0);
  Bytes batch(header.bytes);
  wire_.receive(0, {asio::buffer(batch)});
  must_wait();
  return batch;
}

bool NodeLinks::wait(std::optional<std::chrono::seconds> patience) {
  const auto fault = wire_.wait(patience);
  if (!fault) return true;
  std::optional<End> end = fault->is_late ? watch_.end() : watch_.wait_end(kVerdictPatience);
  if (!end) {
    watch_.lose(fmt::format("node {} failed: {}", fault->rank, fault->why));
    end = watch_.wait_end(kVerdictPatience);
  }
  if (end && end->is_done) return false;
  throw NodeLost(end ? end->why : fault->why);
}

void NodeLinks::must_wait() {
  if (!wait(kStepPatience)) throw NodeLost("the head has ended during a step");
}

void NodeLinks::check(const Header& got, const Header& expected, int rank) {
  if (got.kind == expected.kind && got.bytes == expected.bytes && got.number == expected.number) return;
  const std::string why =
      fmt::format("node {} sent message {} (kind {}, {} bytes); expected message {} (kind {}, {} bytes)",
                  rank, got.number, static_cast<uint32_t>(got.kind), got.bytes, expected.number,
                  static_cast<uint32_t>(expected.kind), expected.bytes);
  watch_.lose(why);
  throw NodeLost(why);
}

}  // namespace nibble::nodes
