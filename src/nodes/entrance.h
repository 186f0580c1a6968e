// The head's door: it listens on the one address that was named, lets in each follower once, with both of its connections, and tells others why
// they may not.
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
  // All of it runs on `io`. `admit` gets each connection. Throws InputError if the address can't be listened on.
  Entrance(asio::io_context& io, const tcp::endpoint& address, int num_nodes, HeadSide head,
           std::function<void(const Joining&, tcp::socket)> admit);
  // Listens as long as `io` runs, which keeps this alive.
  void open();

  std::future<void> all_are_here() { return all_here_.get_future(); }
  // "node 1", "nodes 1, 3": those that have not joined. Called on `io`'s thread.
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
