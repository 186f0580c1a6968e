// The head's listener. Admits two connections of each follower, and refuses all others with a reason.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "nodes/asio.h"
#include "nodes/handshake.h"

namespace nibble::nodes {

class Entrance : public std::enable_shared_from_this<Entrance> {
 public:
  // Starts to listen on `address`; throws InputError if that fails. Coroutines and `admit` run on `io`.
  // `admit` receives each connection that passed the handshake.
  Entrance(asio::io_context& io, const tcp::endpoint& address, int num_nodes, HeadSide head,
           std::function<void(const Joining&, tcp::socket)> admit);
  void open();  // accepts connections until `io` stops; `io` keeps this object alive

  std::future<void> all_are_here() { return all_here_.get_future(); }
  // Returns the ranks that have not joined: "node 1" or "nodes 1, 3". Must be called on the thread of `io`.
  std::string missing() const;

 private:
  asio::awaitable<void> accept();
  asio::awaitable<void> greet(tcp::socket connection);
  Answer judge(const Joining& joining) const;
  bool& has_joined(const Joining& joining);

  struct Follower {
    bool control{false}, data{false};
  };
  asio::io_context& io_;
  tcp::acceptor acceptor_;
  HeadSide head_;
  std::function<void(const Joining&, tcp::socket)> admit_;
  std::vector<Follower> followers_;
  int num_greeted_{0}, num_missing_;
  std::promise<void> all_here_;
};

}  // namespace nibble::nodes
