// HTTP/1.1 on one thread: connections, their limits, and one exchange after the other on each. It knows nothing of what
// is asked: a handler answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"

namespace nibble::server {

namespace asio = boost::asio;

struct HttpLimits {
  int max_connections{1024};  // further ones wait in the system's backlog
  uint32_t max_header_bytes{16 << 10};
  uint64_t max_body_bytes{8 << 20};
  // A connection that takes longer is closed.
  std::chrono::seconds read_timeout{60};   // to send a request's header, and again its body
  std::chrono::seconds idle_timeout{75};   // between two requests
  std::chrono::seconds write_timeout{30};  // to take what was written
};

inline constexpr int kClientGone{499};  // what nginx logs for it

// One request and its answer. Writing throws boost::system::system_error where the client has gone.
class Exchange {
 public:
  using Head = boost::beast::http::request<boost::beast::http::string_body>;

  Exchange(boost::beast::tcp_stream& stream, const HttpLimits& limits, bool keep_alive, Head head);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::string_view method() const;
  std::string_view path() const;                         // without what follows a '?'
  std::string_view header(std::string_view name) const;  // empty where it is absent
  const std::string& body() const { return head_.body(); }
  const std::string& id() const {
    return id_;
  }  // the client's X-Request-Id where it is a plain one, else ours
  int status() const {
    return status_;
  }  // of the answer; 0: none yet, kClientGone: nobody was there to have it
  bool keeps_alive() const { return keep_alive_; }

  asio::awaitable<void> reply(int status, harmony::Json json);
  asio::awaitable<void> reply_text(int status, std::string_view content_type, std::string body);
  asio::awaitable<void> reply(const ApiError& error);

  // Server-sent events; the first call sends the header. The last one says how it went, for the log.
  asio::awaitable<void> write_events(std::string events);
  asio::awaitable<void> end_events(int status);

  // Called once if the client closes the connection before the answer is complete. Another function takes its place.
  void on_disconnect(std::function<void()> function);

 private:
  friend class HttpServer;
  struct Watch {
    bool has_ended{false};
    std::function<void()> on_disconnect;
  };

  void watch();  // from now on a disconnection is told
  std::string head_lines(int status, std::string_view content_type) const;
  asio::awaitable<void> write(const std::string& bytes);

  boost::beast::tcp_stream& stream_;
  const HttpLimits& limits_;
  bool keep_alive_;
  Head head_;
  std::string id_;
  std::shared_ptr<Watch> watch_;
  int status_{0};
  bool has_events_{false};
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Asked before the body is read. Throws ApiError to refuse.
  virtual void admit(const Exchange& exchange) = 0;
  // Throws ApiError or InputError for a request that can't be answered.
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;
  // Of every request, refused ones included: how it ended, and how long that took from its header on.
  virtual void ended(const Exchange& exchange, double seconds) = 0;
};

class HttpServer {
 public:
  // Binds; throws InputError where that can't be. `host` is an address or "localhost", port 0 any free one.
  HttpServer(asio::io_context& io, const std::string& host, uint16_t port, const HttpLimits& limits,
             HttpHandler& handler);

  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void start();                                                 // accepts from now on
  void drain() { is_draining_ = true; }                         // every connection ends with its next answer
  bool is_idle() const { return exchanges_.use_count() == 1; }  // every answer is complete

 private:
  using Stream = boost::beast::tcp_stream;
  using Buffer = boost::beast::flat_buffer;

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  asio::awaitable<bool> serve_one(Stream& stream, Buffer& buffer, bool is_first);
  asio::awaitable<void> answer(Exchange& exchange, std::optional<ApiError> refusal);

  HttpLimits limits_;
  HttpHandler& handler_;
  int num_connections_{0};
  std::shared_ptr<char> exchanges_{std::make_shared<char>()};  // each exchange holds it: it may outlive us
  bool is_draining_{false};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer connection_ended_;
};

}  // namespace nibble::server
