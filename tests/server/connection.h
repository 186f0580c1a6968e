// A client of a server in this process that sends and reads raw bytes.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

#include "server/service/options.h"

namespace nibble::test {

class Connection {
 public:
  explicit Connection(uint16_t port) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{kPatience.count(), 0};
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(handle_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(handle_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void close() {
    if (handle_ >= 0) ::close(handle_);
    handle_ = -1;
  }
  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void post(const std::string& path, const std::string& body) const {
    send(fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", path,
        body.size(), body));
  }
  // Reads until `end` arrives, the connection ends, or a minute has passed.
  std::string read_until(std::string_view end) const {
    const auto latest = Clock::now() + kPatience;
    std::string text;
    for (char byte{};
         text.find(end) == std::string::npos && Clock::now() < latest && ::recv(handle_, &byte, 1, 0) == 1;)
      text += byte;
    return text;
  }
  // Announces a body of `num_bytes` bytes and waits for "100 Continue". Returns the answer up to the end of
  // its header.
  std::string announce(const std::string& path, size_t num_bytes) const {
    send(fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", path,
        num_bytes));
    return read_until("\r\n\r\n");
  }
  // Reads until the connection ends, or a minute has passed.
  std::string read() const {
    const auto latest = Clock::now() + kPatience;
    std::string text;
    for (char bytes[4096];;) {
      const ssize_t num_bytes = ::recv(handle_, bytes, sizeof bytes, 0);
      if (num_bytes <= 0 || Clock::now() > latest) return text;
      text.append(bytes, static_cast<size_t>(num_bytes));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{60};

  int handle_;
};

inline server::ServerOptions any_port() {
  server::ServerOptions options;
  options.model_id = "toy";
  options.address.port = 0;
  return options;
}

}  // namespace nibble::test
