// A client of a server in this process. It never waits without limit, and reports how an answer ended.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace nibble::test {

struct RawAnswer {
  enum class End {
    kComplete,  // the answer is complete by its Content-Length or its last chunk
    kClosed,    // the connection was closed before the end
    kSilence,   // no end came in time
    kGarbage,   // the answer was not HTTP
  };
  End end{End::kClosed};
  int status{0};
  std::string body;  // without the lines that give the sizes of chunks
};

class RawClient {
 public:
  explicit RawClient(uint16_t port) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(handle_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void close() {
    if (handle_ >= 0) ::close(handle_);
    handle_ = -1;
  }

  // Sends the request and reads until the server closes the connection.
  RawAnswer ask(std::string_view method, std::string_view path, std::string_view body,
                std::chrono::milliseconds patience) {
    send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
                     method, path, body.size(), body));
    return read(patience);
  }

  // Stops at an error: a server that closes the connection now may have answered already.
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  void wait_for_a_byte(std::chrono::milliseconds patience) const {
    pollfd waits{handle_, POLLIN, 0};
    ::poll(&waits, 1, static_cast<int>(patience.count()));
  }

 private:
  RawAnswer read(std::chrono::milliseconds patience) const {
    const auto end = std::chrono::steady_clock::now() + patience;
    std::string text;
    for (char bytes[16384];;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      pollfd waits{handle_, POLLIN, 0};
      if (left <= 0 || ::poll(&waits, 1, static_cast<int>(left)) <= 0) {
        RawAnswer answer;
        answer.end = RawAnswer::End::kSilence;
        answer.body = std::move(text);
        return answer;
      }
      const ssize_t num_bytes = ::recv(handle_, bytes, sizeof bytes, 0);
      if (num_bytes <= 0) return parse(text);
      text.append(bytes, static_cast<size_t>(num_bytes));
    }
  }

  static RawAnswer garbage(std::string_view text) {
    RawAnswer answer;
    answer.end = RawAnswer::End::kGarbage;
    answer.body = text;
    return answer;
  }

  static RawAnswer parse(std::string_view text) {
    constexpr std::string_view kBegin{"HTTP/1.1 "};
    RawAnswer answer;
    const size_t head_end = text.find("\r\n\r\n");
    if (!text.substr(0, kBegin.size()).starts_with(kBegin.substr(0, text.size()))) return garbage(text);
    if (head_end == std::string_view::npos) return answer;
    const std::string_view head = text.substr(0, head_end + 2);
    std::string_view rest = text.substr(head_end + 4);
    answer.status = std::atoi(head.substr(kBegin.size(), 3).data());
    constexpr std::string_view kLength{"\r\nContent-Length: "};
    if (const size_t at = head.find(kLength); at != std::string_view::npos) {
      const size_t length = std::strtoull(head.data() + at + kLength.size(), nullptr, 10);
      answer.body = rest;
      if (rest.size() > length) return garbage(text);
      if (rest.size() == length) answer.end = RawAnswer::End::kComplete;
      return answer;
    }
    if (head.find("\r\nTransfer-Encoding: chunked") == std::string_view::npos) return garbage(text);
    for (;;) {
      const size_t line = rest.find("\r\n");
      if (line == std::string_view::npos) {
        if (rest.find_first_not_of("0123456789abcdef\r") != std::string_view::npos) return garbage(text);
        return answer;
      }
      if (line == 0 || rest.substr(0, line).find_first_not_of("0123456789abcdef") != std::string_view::npos)
        return garbage(text);
      const size_t length = std::strtoull(rest.data(), nullptr, 16);
      rest.remove_prefix(line + 2);
      if (length == 0) {
        if (rest == "\r\n") answer.end = RawAnswer::End::kComplete;
        return rest.size() > 2 ? garbage(text) : answer;
      }
      answer.body += rest.substr(0, length);
      if (rest.size() < length + 2) return answer;
      rest.remove_prefix(length + 2);
    }
  }

  int handle_;
};

}  // namespace nibble::test
