// Maps requests to the functions that answer them. A new endpoint is a function and a row of the table in routes.cpp.
#pragma once

#include "server/service.h"

namespace nibble::server {

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange);
asio::awaitable<void> completions(Service& service, Exchange& exchange);
asio::awaitable<void> responses(Service& service, Exchange& exchange);
asio::awaitable<void> apply_template(Service& service, Exchange& exchange);
asio::awaitable<void> tokenize(Service& service, Exchange& exchange);
asio::awaitable<void> detokenize(Service& service, Exchange& exchange);

class Routes : public HttpHandler {
 public:
  explicit Routes(Service& service) : service_(service) {}
  // Refuses unknown paths, wrong methods, missing keys, and everything that needs the model while it is loading.
  void admit(const Exchange& exchange) override;
  asio::awaitable<void> answer(Exchange& exchange) override;
  void ended(const Exchange& exchange, double seconds) override;

 private:
  Service& service_;
};

}  // namespace nibble::server
