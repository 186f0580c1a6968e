#include "nodes/wire.h"

#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace nibble::nodes {

void Wire::add(int rank, tcp::socket&& connection) {
  error_code ignored;
  connection.set_option(tcp::no_delay(true), ignored);
  const tcp protocol = connection.local_endpoint(ignored).protocol();
  connections_.emplace(rank, tcp::socket(io_, protocol, connection.release()));
}

auto Wire::on_end_of(int rank) {
  ++num_under_way_;
  return [this, rank](const error_code& error, size_t) {
    --num_under_way_;
    if (!error) return;
    if (!fault_) fault_ = {rank, error.message()};
    close_here();
  };
}

void Wire::send(int rank, std::vector<asio::const_buffer> parts) {
  asio::async_write(connections_.at(rank), std::move(parts), on_end_of(rank));
}
void Wire::receive(int rank, std::vector<asio::mutable_buffer> parts) {
  asio::async_read(connections_.at(rank), std::move(parts), on_end_of(rank));
}

std::optional<Wire::Fault> Wire::wait(std::optional<std::chrono::seconds> patience) {
  io_.restart();
  if (patience)
    io_.run_for(*patience);
  else
    io_.run();
  if (num_under_way_ > 0) {
    if (!fault_) fault_ = {connections_.begin()->first, "it did not send or receive its data in time", true};
    close_here();
    io_.restart();
    io_.run();
  }
  return fault_;
}

void Wire::close() {
  asio::post(io_, [this] { close_here(); });
}

void Wire::close_here() {
  error_code ignored;
  for (auto& [rank, connection] : connections_) connection.close(ignored);
}

}  // namespace nibble::nodes
