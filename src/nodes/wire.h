// The data connections of a node, which one thread at a time sends and receives on: several at once, and to and from a node at once, because two
// nodes that both send more than the system buffers would wait for each other.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nodes/asio.h"

namespace nibble::nodes {

class Wire {
 public:
  // The connection to a node. Called before anything is sent.
  void add(int rank, tcp::socket&& connection);

  // Begin; what they are given is read and written until wait() returns. At most one of each for a node at a time.
  void send(int rank, std::vector<asio::const_buffer> parts);
  void receive(int rank, std::vector<asio::mutable_buffer> parts);
  // Waits until all that was begun is done, for so long at most. Returns nothing if it is; else which node failed, and how, and then all
  // connections are closed.
  struct Fault {
    int rank;
    std::string why;
    bool is_late{false};  // nothing but that it took too long
  };
  std::optional<Fault> wait(std::optional<std::chrono::seconds> patience);

  // Closes all connections, so that wait() returns. From any thread.
  void close();

 private:
  auto on_end_of(int rank);
  void close_here();

  asio::io_context io_;
  std::map<int, tcp::socket> connections_;
  int num_under_way_{0};
  std::optional<Fault> fault_;
};

}  // namespace nibble::nodes
