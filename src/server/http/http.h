// HTTP/1.1 on one thread, over TCP or a Unix socket: accepts connections, enforces their limits, and runs one exchange
// after the other on each. It knows no endpoint: a handler answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/exchange.h"

namespace nibble::server {

struct HttpAddress {
  std::string host{"127.0.0.1"};  // an address or "localhost"
  uint16_t port{8080};            // 0: any free port
  std::string unix_socket{};      // if set, the path of the only socket to listen on
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called before the body is read. Throws ApiError to refuse the request.
  virtual void admit(const Exchange& exchange) = 0;
  // Answers. Throws ApiError or InputError for a request that can't be answered.
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;
  // Called after every request, refused ones included; `seconds` are counted from its header to the end of its answer.
  virtual void ended(const Exchange& exchange, double seconds) = 0;
};

class HttpServer {
 public:
  // Binds the address, or throws InputError. Pages of `cors_origins` ("*": all) may call from a browser.
  HttpServer(asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
             std::vector<std::string> cors_origins, HttpHandler& handler);
  ~HttpServer();

  uint16_t port() const { return port_; }                       // 0 on a Unix socket
  void start();                                                 // starts to accept connections
  void drain() { is_draining_ = true; }                         // connections close after their next answer
  bool is_idle() const { return exchanges_.use_count() == 1; }  // every answer is complete
  uint64_t num_body_bytes() const { return bodies_->num_bytes(); }

 private:
  using Protocol = asio::generic::stream_protocol;
  using Buffer = boost::beast::flat_buffer;

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(Protocol::socket socket);
  asio::awaitable<bool> serve_one(Stream& stream, Buffer& buffer, bool is_first);
  asio::awaitable<void> answer(Exchange& exchange, std::optional<ApiError> refusal);

  void listen(const Protocol& protocol, const Protocol::endpoint& endpoint);
  std::string cors_lines(const Exchange::Head& request) const;
  bool is_preflight(const Exchange::Head& request) const;

  HttpLimits limits_;
  std::vector<std::string> cors_origins_;
  HttpHandler& handler_;
  std::string unix_socket_;
  uint16_t port_{0};
  int num_connections_{0};
  // Its use count is the number of exchanges. Shared, because an exchange may outlive the server; so is the budget.
  std::shared_ptr<char> exchanges_{std::make_shared<char>()};
  std::shared_ptr<BodyBudget> bodies_;
  bool is_draining_{false};
  asio::basic_socket_acceptor<Protocol> acceptor_;
  asio::steady_timer connection_ended_;
};

}  // namespace nibble::server
