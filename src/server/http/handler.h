// Interface of the code that answers the requests of an HTTP server.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/http/exchange.h"
#include "server/http/http_error.h"

namespace nibble::server {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Whether the request must be answered even if all connections are in use.
  virtual bool is_vital(const Exchange& exchange) const = 0;
  // Called before the body is read. Throws HttpError to refuse the request.
  virtual void admit(const Exchange& exchange) = 0;
  virtual asio::awaitable<void> answer(Exchange& exchange) = 0;  // throws HttpError
  // Answers a request that was refused or has failed. A stream may already have begun.
  virtual asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) = 0;
  // Called after every request, even a refused one. `seconds`: from the header's end to the answer's end.
  virtual void on_ended(const Exchange& exchange, double seconds) = 0;
};

}  // namespace nibble::server
