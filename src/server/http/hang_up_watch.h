// Detects that a client closes its connection or its sending half. Reads can't detect it: the server does not
// read while it answers, and unread bytes come before the close. epoll reports it at once. I/O thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <unordered_map>

namespace nibble::server {

class HangUpWatch : public std::enable_shared_from_this<HangUpWatch> {
 public:
  explicit HangUpWatch(boost::asio::io_context& io);

  void start();  // called once

  // Calls `function` once: when the client hangs up, or soon if it already has. One function per socket.
  void add(int socket, std::function<void()> function);
  void remove(int socket);  // call before closing the socket

 private:
  void wait();
  void call();

  boost::asio::posix::stream_descriptor epoll_;
  std::unordered_map<int, std::function<void()>> functions_;  // key: the socket
};

}  // namespace nibble::server
