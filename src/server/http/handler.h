// Answers the exchanges of an HTTP server.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/http/exchange.h"
#include "server/http/http_error.h"

namespace nibble::server {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Whether to answer even if all connections are in use.
  virtual bool is_vital(const Exchange& exchange) const = 0;
  // Before the body is read. Throws HttpError to refuse.
  virtual void admit(const Exchange& exchange) = 0;
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;  // throws HttpError
  // For refused and failed requests; events of a stream may already be sent.
  virtual asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) = 0;
  // After every request, even refused ones. `seconds`: from the header's end to the end of the answer.
  virtual void on_ended(const Exchange& exchange, double seconds) = 0;
};

}  // namespace nibble::server
