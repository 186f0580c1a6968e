// An exchange without a connection, for an answer that continues without its client. The exchange never
// disconnects, but can be cancelled. Its events go to a KeptAnswer, if it has one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/exchange.h"
#include "server/service/kept_answers.h"

namespace nibble::server {

class BackgroundExchange : public Exchange {
 public:
  BackgroundExchange(std::string id, std::string path) : id_(std::move(id)), path_(std::move(path)) {}

  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return path_; }
  std::string_view query() const override { return ""; }
  std::string_view header(std::string_view) const override { return ""; }
  const std::string& body() const override { return body_; }
  void drop_body() override {}
  void free_body() override {}
  void reserve_more(uint64_t) override {}
  const std::string& id() const override { return id_; }
  int status() const override { return status_; }
  bool has_events() const override { return events_ && events_->has_begun(); }
  void add_header(std::string_view, std::string_view) override {}
  void set_stream_type(std::string_view) override {}
  asio::awaitable<void> reply(int, std::string_view, std::string) override { co_return; }
  asio::awaitable<void> write_events(std::string events) override {
    if (!events_) co_return;
    events_->append(events);
    co_await events_->wait_for_readers();
  }
  asio::awaitable<void> end_events(int status) override {
    status_ = status;
    if (events_) events_->end(status);
    co_return;
  }
  void on_disconnect(std::function<void()> function) override {
    on_cancel_ = std::move(function);
    if (is_cancelled_ && on_cancel_) on_cancel_();
  }

  void keep_events(std::shared_ptr<KeptAnswer> events) { events_ = std::move(events); }
  const std::shared_ptr<KeptAnswer>& events() const { return events_; }  // may be null
  void set_status(int status) { status_ = status; }                      // the status to log
  // While set, the request that began the answer logs it, and the answer itself is not logged.
  void set_logged_elsewhere(bool is_logged) { is_logged_elsewhere_ = is_logged; }
  bool is_logged_elsewhere() const { return is_logged_elsewhere_; }
  // From now on, write_events() does not wait until readers have received earlier events.
  void stop_waiting() {
    if (events_) events_->stop_waiting();
  }
  void cancel() {
    is_cancelled_ = true;
    stop_waiting();
    if (on_cancel_) on_cancel_();
  }

 private:
  std::string id_, path_, body_;
  int status_{0};
  bool is_cancelled_{false}, is_logged_elsewhere_{false};
  std::shared_ptr<KeptAnswer> events_;
  std::function<void()> on_cancel_;
};

}  // namespace nibble::server
