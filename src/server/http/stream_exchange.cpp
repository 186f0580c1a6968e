#include "server/http/stream_exchange.h"

#include <fmt/format.h>

#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "server/http/client_address.h"
#include "server/http/random_id.h"
#include "server/http/trace_context.h"

namespace nibble::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
// Returns the client's id if it is safe in a log line; otherwise makes an id.
std::string id_of(std::string_view sent) {
  constexpr size_t kMaxBytes{64};
  const bool is_plain =
      sent.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
      std::string_view::npos;
  return !sent.empty() && sent.size() <= kMaxBytes && is_plain ? std::string(sent) : "req-" + random_id();
}

}  // namespace

StreamExchange::StreamExchange(Stream& stream, const HttpLimits& limits, bool keep_alive, HttpRequest request,
                               std::string extra_lines)
    : stream_(stream),
      limits_(limits),
      keep_alive_(keep_alive),
      request_(std::move(request)),
      extra_lines_(std::move(extra_lines)),
      id_(id_of(header("X-Request-Id"))) {
  record().client = client_address(stream.socket(), header("X-Forwarded-For"));
  if (const std::string_view trace = header("traceparent"); is_traceparent(trace)) {
    record().traceparent = trace;
    add_header("traceparent", trace);
  }
}

StreamExchange::~StreamExchange() { stop_watching(); }

std::string_view StreamExchange::method() const { return to_std(request_.method_string()); }

std::string_view StreamExchange::path() const {
  const std::string_view target = to_std(request_.target());
  return target.substr(0, target.find('?'));
}

std::string_view StreamExchange::query() const {
  const std::string_view target = to_std(request_.target());
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? "" : target.substr(mark + 1);
}

std::string_view StreamExchange::header(std::string_view name) const {
  const auto found = request_.find(beast::string_view(name.data(), name.size()));
  return found == request_.end() ? std::string_view() : to_std(found->value());
}

void StreamExchange::drop_body() {
  std::string().swap(request_.body());
  body_share_.reset();
}

void StreamExchange::on_disconnect(std::function<void()> function) {
  on_disconnect_ = std::move(function);
  if (is_gone_ && on_disconnect_) on_disconnect_();
}

void StreamExchange::watch_for_disconnect(std::shared_ptr<HangUpWatch> hang_ups) {
  hang_ups_ = std::move(hang_ups);
  watched_socket_ = stream_.socket().native_handle();
  hang_ups_->add(watched_socket_, [this] {
    is_gone_ = true;
    if (on_disconnect_) on_disconnect_();
  });
}

void StreamExchange::stop_watching() {
  if (hang_ups_) hang_ups_->remove(watched_socket_);
  hang_ups_ = nullptr;
}

std::string StreamExchange::head_lines(int status, std::string_view content_type) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string lines =
      fmt::format("HTTP/1.1 {} {}\r\nServer: nibble\r\nX-Request-Id: {}\r\n", status, to_std(reason), id_);
  if (!content_type.empty()) lines += fmt::format("Content-Type: {}\r\n", content_type);
  lines += extra_lines_;
  if (!keep_alive_)
    lines += "Connection: close\r\n";
  else if (request_.version() < 11)
    lines += "Connection: keep-alive\r\n";
  return lines;
}

asio::awaitable<void> StreamExchange::write(const std::string& bytes) {
  stream_.expires_after(limits_.write_timeout);
  co_await asio::async_write(stream_, asio::buffer(bytes), asio::use_awaitable);
  stream_.expires_never();
  if (!record().times.first_byte) record().times.first_byte = record().clock.seconds();
}

void StreamExchange::add_header(std::string_view name, std::string_view value) {
  extra_lines_ += fmt::format("{}: {}\r\n", name, value);
}

asio::awaitable<void> StreamExchange::reply(int status, std::string_view content_type, std::string body) {
  status_ = status;
  std::string bytes = head_lines(status, content_type);
  if (status == 401) bytes += "WWW-Authenticate: Bearer\r\n";
  if (status == 429 || status == 503) bytes += "Retry-After: 1\r\n";
  if (status != 204 && status != 304) bytes += fmt::format("Content-Length: {}\r\n", body.size());
  bytes += "\r\n";
  if (request_.method() != http::verb::head) bytes += body;  // HEAD gets only the length
  co_await write(bytes);
}

asio::awaitable<void> StreamExchange::write_events(std::string events) {
  const bool is_chunked = request_.version() >= 11;
  if (is_chunked) events = fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  if (!has_events_) {
    if (!is_chunked) keep_alive_ = false;  // without chunks, closing the connection ends the answer
    std::string head = head_lines(200, stream_type_);
    head += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";  // tells nginx not to buffer
    head += is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
    events.insert(0, head);
  }
  co_await write(events);
  // Set these after the write: if memory ran out before, an error with its own header can still be sent.
  if (!has_events_) status_ = 200;
  has_events_ = true;
}

asio::awaitable<void> StreamExchange::end_events(int status) {
  static const std::string kLastChunk{"0\r\n\r\n"};
  if (request_.version() >= 11) co_await write(kLastChunk);
  has_ended_ = true;
  status_ = status;
}

}  // namespace nibble::server
