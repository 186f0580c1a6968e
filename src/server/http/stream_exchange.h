// An exchange on a Boost.Beast stream.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <memory>
#include <optional>

#include "server/http/body_budget.h"
#include "server/http/exchange.h"
#include "server/http/hang_up_watch.h"
#include "server/http/limits.h"
#include "server/http/request_head.h"

namespace nibble::server {

using Stream = boost::beast::basic_stream<asio::generic::stream_protocol>;

class StreamExchange : public Exchange {
 public:
  // `extra_lines`: additional lines of the answer's header, each ending in "\r\n".
  StreamExchange(Stream& stream, const HttpLimits& limits, bool keep_alive, HttpRequest request,
                 std::string extra_lines = "");
  ~StreamExchange() override;
  StreamExchange(const StreamExchange&) = delete;
  StreamExchange& operator=(const StreamExchange&) = delete;

  std::string_view method() const override;
  std::string_view path() const override;
  std::string_view query() const override;
  std::string_view header(std::string_view name) const override;
  const std::string& body() const override { return request_.body(); }
  void drop_body() override;
  void free_body() override { std::string().swap(request_.body()); }
  void reserve_more(uint64_t num_bytes) override { body_share_->reserve_more(num_bytes); }
  const std::string& id() const override { return id_; }
  int status() const override { return status_; }
  bool has_events() const override { return has_events_; }
  void add_header(std::string_view name, std::string_view value) override;
  asio::awaitable<void> reply(int status, std::string_view content_type, std::string body) override;
  void set_stream_type(std::string_view content_type) override { stream_type_ = content_type; }
  asio::awaitable<void> write_events(std::string events) override;
  asio::awaitable<void> end_events(int status) override;
  void on_disconnect(std::function<void()> function) override;

  // For the connection that runs this exchange:
  bool keeps_alive() const { return keep_alive_; }
  void hold_body(BodyBudget::Share share) { body_share_.emplace(std::move(share)); }
  void set_client_gone() { status_ = kClientGone; }
  bool has_open_stream() const { return has_events_ && !has_ended_; }
  void watch_for_disconnect(std::shared_ptr<HangUpWatch> hang_ups);
  void stop_watching();

 private:
  std::string head_lines(int status, std::string_view content_type) const;
  asio::awaitable<void> write(const std::string& bytes);

  Stream& stream_;
  const HttpLimits& limits_;
  bool keep_alive_;
  HttpRequest request_;
  std::optional<BodyBudget::Share> body_share_;  // budget taken by the body of request_
  std::string extra_lines_;
  std::string id_;
  std::string stream_type_{"text/event-stream"};
  std::shared_ptr<HangUpWatch> hang_ups_;  // null unless the client's disconnect is watched for
  int watched_socket_{-1};
  bool is_gone_{false};
  std::function<void()> on_disconnect_;
  int status_{0};
  bool has_events_{false}, has_ended_{false};
};

}  // namespace nibble::server
