// An exchange without a connection, for a background answer: never disconnects, but can be cancelled.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "server/http/exchange.h"

namespace nibble::server {

class BackgroundExchange : public Exchange {
 public:
  explicit BackgroundExchange(std::string id) : id_(std::move(id)) {}

  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/responses"; }
  std::string_view query() const override { return ""; }
  std::string_view header(std::string_view) const override { return ""; }
  const std::string& body() const override { return body_; }
  void drop_body() override {}
  void free_body() override {}
  void reserve_more(uint64_t) override {}
  const std::string& id() const override { return id_; }
  int status() const override { return status_; }
  bool has_events() const override { return false; }
  void add_header(std::string_view, std::string_view) override {}
  void set_stream_type(std::string_view) override {}
  asio::awaitable<void> reply(int, std::string_view, std::string) override { co_return; }
  asio::awaitable<void> write_events(std::string) override { co_return; }
  asio::awaitable<void> end_events(int) override { co_return; }
  void on_disconnect(std::function<void()> function) override { on_cancel_ = std::move(function); }

  void set_status(int status) { status_ = status; }  // the status to log
  void cancel() {
    if (on_cancel_) on_cancel_();
  }

 private:
  std::string id_, body_;
  int status_{0};
  std::function<void()> on_cancel_;
};

}  // namespace nibble::server
