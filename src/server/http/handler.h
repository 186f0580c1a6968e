// Answers the exchanges of an HTTP server.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/http/exchange.h"
#include "server/http/http_error.h"

namespace nibble::server {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Returns whether the request is answered even if all connections are in use.
  virtual bool is_vital(const Exchange& exchange) const = 0;
  // Called before the body is read. Throws HttpError to refuse the request.
  virtual void admit(const Exchange& exchange) = 0;
  // Answers a request. Throws HttpError if it can't.
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;
  // Answers a request that was refused or has failed; events of a stream may already be sent.
  virtual asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) = 0;
  // Called after every request, including refused ones. `seconds`: from the end of its header to the end of
  // its answer.
  virtual void on_ended(const Exchange& exchange, double seconds) = 0;
};

}  // namespace nibble::server
