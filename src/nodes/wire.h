// A node's data connections, used by one thread at a time. Transfers run on all connections and in both
// directions at once. Otherwise two nodes would deadlock if both send more than the socket buffers hold.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nodes/asio.h"

namespace nibble::nodes {

class Wire {
 public:
  // Adds the connection to a node. Called before the first transfer.
  void add(int rank, tcp::socket&& connection);

  // send() and receive() start a transfer: at most one per node and direction. `parts` must stay valid until
  // wait() returns.
  void send(int rank, std::vector<asio::const_buffer> parts);
  void receive(int rank, std::vector<asio::mutable_buffer> parts);
  struct Fault {
    int rank;
    std::string why;
    bool is_late{false};  // true: the timeout has passed; no connection failed
  };
  // Waits for all started transfers, at most `patience`. Returns nullopt on success. Otherwise closes all
  // connections and returns the failed node and the reason.
  std::optional<Fault> wait(std::optional<std::chrono::seconds> patience);

  void close();  // closes all connections, which ends wait(); any thread may call it

 private:
  auto on_end_of(int rank);
  void close_here();

  asio::io_context io_;
  std::map<int, tcp::socket> connections_;
  int num_under_way_{0};
  std::optional<Fault> fault_;
};

}  // namespace nibble::nodes
