// One client's connection: reads requests one after the other, has the handler answer them, and closes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/body_budget.h"
#include "server/http/handler.h"
#include "server/http/limits.h"
#include "server/http/stream_exchange.h"

namespace nibble::server {

// Shared by all connections of a server.
struct ConnectionContext {
  HttpLimits limits;
  std::vector<std::string> cors_origins;
  HttpHandler& handler;
  std::shared_ptr<BodyBudget> bodies;
  // Its use count is the number of exchanges. Shared, because an exchange may outlive the server; so is the budget.
  std::shared_ptr<char> exchanges{std::make_shared<char>()};
  bool is_draining{false};
};

class Connection {
 public:
  // The context must outlive serve().
  Connection(asio::generic::stream_protocol::socket socket, const ConnectionContext& context);

  // Serves requests until the connection is to be closed.
  asio::awaitable<void> serve();

 private:
  asio::awaitable<bool> serve_one(bool is_first);
  asio::awaitable<void> answer(StreamExchange& exchange, std::optional<HttpError> refusal);
  asio::awaitable<void> linger();
  std::string cors_lines(const HttpRequest& request) const;
  bool is_preflight(const HttpRequest& request) const;

  const ConnectionContext& context_;
  Stream stream_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace nibble::server
