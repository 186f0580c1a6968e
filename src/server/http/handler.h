// Answers the exchanges of an HTTP server.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/http/exchange.h"
#include "server/http/http_error.h"

namespace nibble::server {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Whether the request is answered even if all connections are in use.
  virtual bool is_vital(const Exchange& exchange) const = 0;
  // Called before the body is read. Throws HttpError to refuse the request.
  virtual void admit(const Exchange& exchange) = 0;
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;  // throws HttpError
  // Answers a request that was refused or has failed; events of a stream may already be sent.
  virtual asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) = 0;
  // Called after every request, even refused ones. `seconds`: from the header's end to the answer's end.
  virtual void on_ended(const Exchange& exchange, double seconds) = 0;
};

}  // namespace nibble::server
