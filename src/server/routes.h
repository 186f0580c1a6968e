// Dispatches requests to endpoints. A new endpoint is a function and a row of the table in routes.cpp.
#pragma once

#include "server/http/handler.h"
#include "server/service/service.h"

namespace nibble::server {

class Routes : public HttpHandler {
 public:
  explicit Routes(Service& service) : service_(service) {}
  bool is_vital(const Exchange& exchange) const override;
  // Refuses unknown paths, wrong methods, missing keys, and requests for a model that is not loaded yet.
  void admit(const Exchange& exchange) override;
  asio::awaitable<void> answer(Exchange& exchange) override;
  asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) override;
  void on_ended(const Exchange& exchange, double seconds) override;

 private:
  Service& service_;
};

}  // namespace nibble::server
