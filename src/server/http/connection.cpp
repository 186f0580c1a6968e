#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "core/clock.h"
#include "core/log.h"

namespace nibble::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using boost::system::system_error;

// Lingering close: if a socket is closed while the client still sends, the kernel resets the connection, and the answer is
// lost. So after the last answer the rest of the input is read and dropped, up to these limits.
constexpr std::chrono::seconds kLingerTime{5};
constexpr size_t kLingerBytes{64 << 20};

// Size of the read buffer. Twice the header's limit, so that a header over the limit is recognised as such; it also bounds
// the extensions and trailers of chunks, which the parser does not limit.
size_t buffer_bytes(const HttpLimits& limits) { return 2 * size_t{limits.max_header_bytes}; }

HttpError error_of(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::body_limit)
    return HttpError(413, "the body is too large: at most {} bytes are accepted", limits.max_body_bytes);
  if (error == http::error::header_limit)
    return HttpError(431, "the header is too large: at most {} bytes are accepted", limits.max_header_bytes);
  if (error == http::error::buffer_overflow)
    return HttpError(431, "what a chunk has beside its data is too large: at most {} bytes are accepted",
                     buffer_bytes(limits));
  return HttpError(400, "the request is no HTTP: {}", error.message());
}

bool is_http_error(const error_code& error) {
  static const error_code any = http::error::bad_method;
  return error && error.category() == any.category() && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

}  // namespace

Connection::Connection(asio::generic::stream_protocol::socket socket, const ConnectionContext& context)
    : context_(context), stream_(std::move(socket)), buffer_(buffer_bytes(context.limits)) {
  error_code ignored;
  // Sends each event at once. It fails on Unix sockets, which need it not.
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

asio::awaitable<void> Connection::serve() {
  bool is_first = true;
  while (co_await serve_one(is_first)) is_first = false;
  co_await linger();
}

asio::awaitable<void> Connection::linger() {
  error_code error;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, error);
  stream_.expires_after(kLingerTime);
  std::string taken(16 << 10, '\0');
  for (size_t num_bytes = 0; !error && num_bytes < kLingerBytes;)
    num_bytes += co_await stream_.async_read_some(asio::buffer(taken),
                                                  asio::redirect_error(asio::use_awaitable, error));
}

// A CORS preflight, which a browser sends before a page's own request. It carries no key, so it is answered without one.
bool Connection::is_preflight(const HttpRequest& request) const {
  return !context_.cors_origins.empty() && request.method() == http::verb::options &&
         request.count(http::field::access_control_request_method) > 0;
}

std::string Connection::cors_lines(const HttpRequest& request) const {
  const std::string origin(to_std(request[http::field::origin]));
  const auto is_known = [&](const std::string& known) { return known == "*" || known == origin; };
  if (origin.empty() || std::none_of(context_.cors_origins.begin(), context_.cors_origins.end(), is_known))
    return {};
  std::string lines = fmt::format(
      "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
      "Access-Control-Expose-Headers: X-Request-Id, X-Nibble-Ignored\r\n",
      origin);
  if (!is_preflight(request)) return lines;
  lines += "Access-Control-Allow-Methods: GET, POST, DELETE\r\nAccess-Control-Max-Age: 86400\r\n";
  const auto asked = request[http::field::access_control_request_headers];
  if (!asked.empty()) lines += fmt::format("Access-Control-Allow-Headers: {}\r\n", to_std(asked));
  return lines;
}

// Serves one request. Returns false if the connection is to be closed.
asio::awaitable<bool> Connection::serve_one(bool is_first) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(context_.limits.max_header_bytes);
  parser.body_limit(context_.limits.max_body_bytes);
  error_code error;
  stream_.expires_after(is_first ? context_.limits.read_timeout : context_.limits.idle_timeout);
  co_await http::async_read_header(stream_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error && !is_http_error(error)) co_return false;  // closed by the client, or timed out
  const Stopwatch watch;

  std::optional<HttpError> refusal;
  const bool asks_first = !error && is_preflight(parser.get());
  if (error) {
    refusal = error_of(error, context_.limits);
  } else if (!asks_first) {
    try {
      context_.handler.admit(StreamExchange(stream_, context_.limits, true, parser.get()));
    } catch (const HttpError& refused) {
      refusal = refused;
    }
  }
  BodyBudget::Share share(context_.bodies);
  const auto take_room = [&](uint64_t num_bytes) {
    try {
      share.reserve(num_bytes);
    } catch (const HttpError& full) {
      refusal = full;
    }
  };
  if (!refusal) take_room(parser.content_length().value_or(0));
  if (!refusal && !parser.is_done()) {
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(go_on), asio::use_awaitable);
    }
    stream_.expires_after(context_.limits.read_timeout);
    parser.eager(true);
    while (!error && !refusal && !parser.is_done()) {
      co_await http::async_read_some(stream_, buffer_, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
      take_room(parser.get().body().size());  // for chunked bodies, whose length is not declared
    }
    if (error && !is_http_error(error)) co_return false;
    if (error) refusal = error_of(error, context_.limits);
  }
  stream_.expires_never();

  const bool keep_alive = parser.is_done() && !error && parser.keep_alive() && !context_.is_draining;
  std::string extra_lines = cors_lines(parser.get());
  StreamExchange exchange(stream_, context_.limits, keep_alive, parser.release(), std::move(extra_lines));
  exchange.hold_body(std::move(share));
  const std::shared_ptr<char> counted = context_.exchanges;
  if (asks_first) {
    co_await exchange.reply(204, "", "");
    co_return exchange.keeps_alive();
  }
  co_await answer(exchange, std::move(refusal));
  context_.handler.on_ended(exchange, watch.seconds());
  co_return exchange.status() != kClientGone&& exchange.keeps_alive();
}

asio::awaitable<void> Connection::answer(StreamExchange& exchange, std::optional<HttpError> refusal) {
  const bool was_refused = refusal.has_value();
  if (!was_refused) exchange.watch_for_disconnect();
  try {
    if (!was_refused) co_await context_.handler.answer(exchange);
  } catch (const HttpError& error) {
    refusal = error;
  } catch (const system_error& error) {
    exchange.set_client_gone();
    log::debug("{}: {}", exchange.id(), error.code().message());
  } catch (const std::exception& error) {  // such as std::bad_alloc: only this request fails
    log::warn("{} failed: {}", exchange.id(), error.what());
    refusal = HttpError(500, "the request could not be answered: {}", error.what());
  }
  exchange.on_disconnect(nullptr);
  try {
    if (refusal) {
      exchange.drop_body();
      co_await context_.handler.answer_error(exchange, *refusal);
    }
  } catch (const system_error&) {
    exchange.set_client_gone();
  }
  if (exchange.status() == 0) exchange.set_client_gone();
  exchange.stop_watching();
}

}  // namespace nibble::server
