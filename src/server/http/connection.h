// A client's connection: reads requests one after another, passes each to the handler, and closes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/access.h"
#include "server/http/body_budget.h"
#include "server/http/connection_slots.h"
#include "server/http/handler.h"
#include "server/http/hang_up_watch.h"
#include "server/http/limits.h"
#include "server/http/stream_exchange.h"

namespace nibble::server {

struct ConnectionContext {  // shared by all connections of a server
  HttpLimits limits;
  AccessRules access;
  HttpHandler& handler;
  std::shared_ptr<BodyBudget> bodies;  // shared ownership: an exchange may outlive the server
  std::shared_ptr<ConnectionSlots> slots;
  std::shared_ptr<HangUpWatch> hang_ups;
  // Counts the exchanges: use_count() is their number plus 1.
  std::shared_ptr<char> exchanges{std::make_shared<char>()};
  bool is_draining{false};
};

class Connection {
 public:
  // The context must outlive serve().
  Connection(asio::generic::stream_protocol::socket socket, const ConnectionContext& context);

  asio::awaitable<void> serve();  // serves requests until the connection must close

 private:
  using Refusal = std::optional<HttpError>;

  asio::awaitable<bool> serve_one(bool is_first);
  // The next three functions return false if the client has left, was too slow, or lost its slot to a new
  // connection.
  asio::awaitable<bool> read_request_head(RequestHead& head, Refusal& refusal);
  asio::awaitable<bool> read_body(RequestHead& head, BodyBudget::Share& share, Refusal& refusal);
  asio::awaitable<bool> receive();
  void check(const RequestHead& head, bool is_first, const BodyBudget::Share& share);
  asio::awaitable<void> answer(StreamExchange& exchange, Refusal refusal);
  asio::awaitable<void> linger();
  std::string_view received() const;
  std::string cors_lines(const HttpRequest& request) const;
  bool is_preflight(const HttpRequest& request) const;

  const ConnectionContext& context_;
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  ConnectionSlots::Slot slot_;
};

}  // namespace nibble::server
