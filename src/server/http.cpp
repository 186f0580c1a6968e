#include "server/http.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <optional>

#include "core/clock.h"
#include "core/log.h"
#include "server/api_reply.h"

namespace nibble::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using boost::system::system_error;
using tcp = asio::ip::tcp;

// An answer to a request that was not read to its end would be lost if the connection were closed at once: the system
// resets it while bytes are coming. So they are taken, for a while.
constexpr std::chrono::seconds kLingerTime{5};
constexpr size_t kLingerBytes{64 << 20};

std::string_view to_std(beast::string_view text) { return {text.data(), text.size()}; }

tcp::endpoint endpoint_of(const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    throw InputError("--host '{}': accepted is an address as 127.0.0.1, 0.0.0.0 or ::, or localhost", host);
  return {address, port};
}

// A client's own id is taken where it can't garble a line of the log.
std::string id_of(std::string_view sent) {
  constexpr size_t kMaxBytes{64};
  const bool is_plain =
      sent.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
      std::string_view::npos;
  return !sent.empty() && sent.size() <= kMaxBytes && is_plain ? std::string(sent) : "req-" + random_id();
}

ApiError error_of(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::body_limit)
    return ApiError(413, "the body is too large: at most {} bytes are accepted", limits.max_body_bytes);
  if (error == http::error::header_limit)
    return ApiError(431, "the header is too large: at most {} bytes are accepted", limits.max_header_bytes);
  return ApiError(400, "the request is no HTTP: {}", error.message());
}

bool is_http_error(const error_code& error) {
  static const error_code any = http::error::bad_method;
  return error && error.category() == any.category() && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

asio::awaitable<void> linger(beast::tcp_stream& stream) {
  error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  stream.expires_after(kLingerTime);
  std::string taken(16 << 10, '\0');
  for (size_t num_bytes = 0; !error && num_bytes < kLingerBytes;)
    num_bytes += co_await stream.async_read_some(asio::buffer(taken),
                                                 asio::redirect_error(asio::use_awaitable, error));
}

}  // namespace

Exchange::Exchange(beast::tcp_stream& stream, const HttpLimits& limits, bool keep_alive, Head head)
    : stream_(stream),
      limits_(limits),
      keep_alive_(keep_alive),
      head_(std::move(head)),
      id_(id_of(header("X-Request-Id"))),
      watch_(std::make_shared<Watch>()) {}

Exchange::~Exchange() {
  watch_->has_ended = true;
  watch_->on_disconnect = nullptr;
}

std::string_view Exchange::method() const { return to_std(head_.method_string()); }

std::string_view Exchange::path() const {
  const std::string_view target = to_std(head_.target());
  return target.substr(0, target.find('?'));
}

std::string_view Exchange::header(std::string_view name) const {
  const auto found = head_.find(beast::string_view(name.data(), name.size()));
  return found == head_.end() ? std::string_view() : to_std(found->value());
}

void Exchange::on_disconnect(std::function<void()> function) { watch_->on_disconnect = std::move(function); }

// A socket that can be read but has nothing to read was closed by the other side. One that has is a client that sends its
// next request early: then the connection is not watched any further.
void Exchange::watch() {
  tcp::socket& socket = stream_.socket();
  socket.async_wait(tcp::socket::wait_read,
                    [state = watch_, handle = socket.native_handle()](const error_code& error) {
                      if (error || state->has_ended) return;
                      char byte{};
                      if (::recv(handle, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return;
                      if (state->on_disconnect) state->on_disconnect();
                    });
}

std::string Exchange::head_lines(int status, std::string_view content_type) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string lines =
      fmt::format("HTTP/1.1 {} {}\r\nServer: nibble\r\nContent-Type: {}\r\nX-Request-Id: {}\r\n", status,
                  to_std(reason), content_type, id_);
  if (!keep_alive_)
    lines += "Connection: close\r\n";
  else if (head_.version() < 11)
    lines += "Connection: keep-alive\r\n";
  return lines;
}

asio::awaitable<void> Exchange::write(const std::string& bytes) {
  stream_.expires_after(limits_.write_timeout);
  co_await asio::async_write(stream_, asio::buffer(bytes), asio::use_awaitable);
  stream_.expires_never();
}

asio::awaitable<void> Exchange::reply(int status, Json json) {
  return reply_text(status, "application/json", print(json) + "\n");
}

asio::awaitable<void> Exchange::reply_text(int status, std::string_view content_type, std::string body) {
  status_ = status;
  std::string bytes = head_lines(status, content_type);
  if (status == 401) bytes += "WWW-Authenticate: Bearer\r\n";
  if (status == 429 || status == 503) bytes += "Retry-After: 1\r\n";
  bytes += fmt::format("Content-Length: {}\r\n\r\n", body.size());
  bytes += body;
  co_await write(bytes);
}

asio::awaitable<void> Exchange::reply(const ApiError& error) {
  Json json = error_json(error);
  if (!has_events_) {
    co_await reply(error.status, std::move(json));
    co_return;
  }
  // The header said 200; the stream says what happened.
  co_await write_events(sse_event(json) + std::string(kSseDone));
  co_await end_events(error.status);
}

asio::awaitable<void> Exchange::write_events(std::string events) {
  const bool is_chunked = head_.version() >= 11;
  if (is_chunked) events = fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  if (!has_events_) {
    has_events_ = true;
    status_ = 200;
    if (!is_chunked) keep_alive_ = false;  // nothing but the connection's end ends the answer
    std::string head = head_lines(200, "text/event-stream");
    head += "Cache-Control: no-cache\r\n";
    head += is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
    events.insert(0, head);
  }
  co_await write(events);
}

asio::awaitable<void> Exchange::end_events(int status) {
  static const std::string kLastChunk{"0\r\n\r\n"};
  if (head_.version() >= 11) co_await write(kLastChunk);
  status_ = status;
}

HttpServer::HttpServer(asio::io_context& io, const std::string& host, uint16_t port, const HttpLimits& limits,
                       HttpHandler& handler)
    : limits_(limits), handler_(handler), acceptor_(io), connection_ended_(io) {
  const tcp::endpoint endpoint = endpoint_of(host, port);
  try {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
  } catch (const system_error& error) {
    throw InputError("{}:{} can't be listened on: {}; --host and --port name another address", host, port,
                     error.code().message());
  }
}

void HttpServer::start() { asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached); }

asio::awaitable<void> HttpServer::accept() {
  constexpr std::chrono::milliseconds kPause{100};
  for (;;) {
    error_code error;
    const bool is_full = num_connections_ >= limits_.max_connections;
    tcp::socket socket(acceptor_.get_executor());
    if (!is_full) {
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) log::warn("a connection could not be accepted: {}", error.message());
    }
    if (is_full || error) {  // also where the system has no more files to open: the next try may find one
      connection_ended_.expires_after(kPause);
      co_await connection_ended_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    ++num_connections_;
    asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), [this](const std::exception_ptr&) {
      --num_connections_;
      connection_ended_.cancel();
    });
  }
}

asio::awaitable<void> HttpServer::serve(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);  // an event is sent when it is written
  Stream stream(std::move(socket));
  Buffer buffer;
  bool is_first = true;
  while (co_await serve_one(stream, buffer, is_first)) is_first = false;
  co_await linger(stream);
}

// False: the connection is to end.
asio::awaitable<bool> HttpServer::serve_one(Stream& stream, Buffer& buffer, bool is_first) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(limits_.max_header_bytes);
  parser.body_limit(limits_.max_body_bytes);
  error_code error;
  stream.expires_after(is_first ? limits_.read_timeout : limits_.idle_timeout);
  co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error && !is_http_error(error)) co_return false;  // closed, or too slow
  const Stopwatch watch;

  std::optional<ApiError> refusal;
  if (error) {
    refusal = error_of(error, limits_);
  } else {
    try {
      handler_.admit(Exchange(stream, limits_, true, parser.get()));
    } catch (const ApiError& refused) {
      refusal = refused;
    }
  }
  if (!refusal && !parser.is_done()) {
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream, asio::buffer(go_on), asio::use_awaitable);
    }
    stream.expires_after(limits_.read_timeout);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error && !is_http_error(error)) co_return false;
    if (error) refusal = error_of(error, limits_);
  }
  stream.expires_never();

  const bool keep_alive = parser.is_done() && !error && parser.keep_alive() && !is_draining_;
  Exchange exchange(stream, limits_, keep_alive, parser.release());
  const std::shared_ptr<char> counted = exchanges_;
  co_await answer(exchange, std::move(refusal));
  handler_.ended(exchange, watch.seconds());
  co_return exchange.status() != kClientGone&& exchange.keeps_alive();
}

asio::awaitable<void> HttpServer::answer(Exchange& exchange, std::optional<ApiError> refusal) {
  const bool was_refused = refusal.has_value();
  if (!was_refused) exchange.watch();
  try {
    if (!was_refused) co_await handler_.answer(exchange);
  } catch (const ApiError& error) {
    refusal = error;
  } catch (const InputError& error) {
    refusal = ApiError::of(error);
  } catch (const system_error& error) {
    exchange.status_ = kClientGone;
    log::debug("{}: {}", exchange.id(), error.code().message());
  } catch (const std::exception& error) {  // out of memory: this request fails, the others do not
    log::warn("{} failed: {}", exchange.id(), error.what());
    refusal = ApiError(500, "the request could not be answered: {}", error.what());
  }
  exchange.on_disconnect(nullptr);
  try {
    if (refusal) co_await exchange.reply(*refusal);
  } catch (const system_error&) {
    exchange.status_ = kClientGone;
  }
  if (exchange.status_ == 0) exchange.status_ = kClientGone;
  error_code ignored;
  exchange.stream_.socket().cancel(ignored);  // the watch
}

}  // namespace nibble::server
