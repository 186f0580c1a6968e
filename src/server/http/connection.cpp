#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/read_size.hpp>
#include <utility>

#include "core/program/log.h"
#include "core/system/clock.h"
#include "server/http/chunked_body.h"

namespace nibble::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using boost::system::system_error;

// Limits of the lingering close. If a socket is closed while the client still sends, the kernel resets the
// connection and the answer is lost. So the rest of the input is read and dropped before the close.
constexpr std::chrono::seconds kLingerTime{5};
constexpr size_t kLingerBytes{64 << 20};

// Returns the size of the read buffer: twice the limit of a header, so that longer headers are detected.
size_t buffer_bytes(const HttpLimits& limits) { return 2 * size_t{limits.max_header_bytes}; }

}  // namespace

Connection::Connection(asio::generic::stream_protocol::socket socket, const ConnectionContext& context)
    : context_(context),
      stream_(std::move(socket)),
      buffer_(buffer_bytes(context.limits)),
      slot_(context.slots, [this] { stream_.close(); }) {
  error_code ignored;
  // Send each event immediately. Fails on Unix sockets, which don't need it.
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
  slot_.wait();
  for (size_t num_bytes = 0; !error && num_bytes < kLingerBytes;)
    num_bytes += co_await stream_.async_read_some(asio::buffer(taken),
                                                  asio::redirect_error(asio::use_awaitable, error));
}

std::string_view Connection::received() const {
  const auto bytes = buffer_.data();
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

asio::awaitable<bool> Connection::receive() {  // reads bytes into the buffer, which must have room
  constexpr size_t kMostBytes{64 << 10};
  error_code error;
  slot_.wait();
  const size_t num_bytes =
      co_await stream_.async_read_some(buffer_.prepare(boost::beast::read_size(buffer_, kMostBytes)),
                                       asio::redirect_error(asio::use_awaitable, error));
  slot_.work();
  buffer_.commit(num_bytes);
  co_return !error && !slot_.has_given_way();
}

asio::awaitable<bool> Connection::read_request_head(RequestHead& head, Refusal& refusal) {
  const uint32_t max_bytes = context_.limits.max_header_bytes;
  for (size_t num_scanned = 0;;) {
    while (num_scanned == 0 && received().starts_with("\r\n")) buffer_.consume(2);  // skip stray line ends
    const std::optional<size_t> length = head_length(received(), num_scanned);
    num_scanned = received() == "\r" ? 0 : received().size();
    if (length.value_or(num_scanned) > max_bytes) {
      refusal = HttpError(431, "the header is too large: at most {} bytes are accepted", max_bytes);
      co_return true;
    }
    if (length) try {
        read_head(received().substr(0, *length), head);
        buffer_.consume(*length);
        co_return true;
      } catch (const HttpError& error) {
        refusal = error;
        co_return true;
      }
    if (!co_await receive()) co_return false;
  }
}

asio::awaitable<bool> Connection::read_body(RequestHead& head, BodyBudget::Share& share, Refusal& refusal) {
  std::string& body = head.request.body();
  ChunkedBody chunks(context_.limits.max_body_bytes, context_.limits.max_header_bytes);
  const auto take = [&](std::string_view bytes) {
    if (head.is_chunked) return chunks.take(bytes, body);
    bytes = bytes.substr(0, head.content_length - body.size());
    body.append(bytes);
    return bytes.size();
  };
  stream_.expires_after(context_.limits.read_timeout);
  try {
    for (;;) {
      buffer_.consume(take(received()));
      share.reserve(body.size());
      if (head.is_chunked ? chunks.is_done() : body.size() == head.content_length) co_return true;
      if (!co_await receive()) co_return false;
    }
  } catch (const HttpError& error) {
    refusal = error;
  }
  co_return true;
}

// Whether the request is a CORS preflight, which a browser sends without a key before a page's request.
bool Connection::is_preflight(const HttpRequest& request) const {
  return request.method() == http::verb::options &&
         request.count(http::field::access_control_request_method) > 0 &&
         is_cors_origin(context_.access, to_std(request[http::field::origin]));
}

std::string Connection::cors_lines(const HttpRequest& request) const {
  const std::string_view origin = to_std(request[http::field::origin]);
  if (!is_cors_origin(context_.access, origin)) return {};
  std::string lines = fmt::format(
      "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
      "Access-Control-Expose-Headers: X-Request-Id, X-Nibble-Answer, X-Nibble-Ignored\r\n",
      origin);
  if (!is_preflight(request)) return lines;
  lines += "Access-Control-Allow-Methods: GET, POST, DELETE\r\nAccess-Control-Max-Age: 86400\r\n";
  const auto asked = request[http::field::access_control_request_headers];
  if (!asked.empty()) lines += fmt::format("Access-Control-Allow-Headers: {}\r\n", to_std(asked));
  // Chrome requires this header before a page from the internet may call a server in the user's network.
  if (request["Access-Control-Request-Private-Network"] == "true")
    lines += "Access-Control-Allow-Private-Network: true\r\n";
  return lines;
}

// Decides, from a request's header, whether its body is read. Throws HttpError to refuse the request.
void Connection::check(const RequestHead& head, bool is_first, const BodyBudget::Share& share) {
  const HttpLimits& limits = context_.limits;
  check_access(context_.access, head.request);
  if (is_preflight(head.request)) return;
  const StreamExchange exchange(stream_, limits, true, head.request);
  if (is_first && context_.slots->are_too_few() && !context_.handler.is_vital(exchange))
    throw HttpError(503, "all {} connections are in use (--max-connections); try again later",
                    limits.max_connections);
  context_.handler.admit(exchange);
  if (head.content_length > limits.max_body_bytes)
    throw HttpError(413, "the body is too large: at most {} bytes are accepted", limits.max_body_bytes);
  share.check(head.content_length);
}

// Serves one request. Returns false if the connection must close.
asio::awaitable<bool> Connection::serve_one(bool is_first) {
  RequestHead head;
  Refusal refusal;
  BodyBudget::Share share(context_.bodies);
  stream_.expires_after(is_first ? context_.limits.read_timeout : context_.limits.idle_timeout);
  if (!co_await read_request_head(head, refusal)) co_return false;
  const Stopwatch watch;
  bool is_whole = !refusal && !head.has_body();
  if (!refusal) try {
      check(head, is_first, share);
    } catch (const HttpError& error) {
      refusal = error;
    }
  if (!refusal && head.has_body()) {
    if (head.expects_continue && received().empty()) {
      const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(go_on), asio::use_awaitable);
    }
    if (!co_await read_body(head, share, refusal)) co_return false;
    is_whole = !refusal;
  }
  stream_.expires_never();

  const bool keep_alive =
      is_whole && head.keep_alive && !context_.is_draining && !context_.slots->are_too_few();
  const bool asks_first = !refusal && is_preflight(head.request);
  std::string extra_lines = cors_lines(head.request);
  StreamExchange exchange(stream_, context_.limits, keep_alive, std::move(head.request),
                          std::move(extra_lines));
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

asio::awaitable<void> Connection::answer(StreamExchange& exchange, Refusal refusal) {
  const bool was_refused = refusal.has_value();
  if (!was_refused) exchange.watch_for_disconnect(context_.hang_ups);
  try {
    if (!was_refused) co_await context_.handler.answer(exchange);
  } catch (const HttpError& error) {
    refusal = error;
  } catch (const system_error& error) {
    exchange.set_client_gone();
    log::debug("{}: {}", exchange.id(), error.code().message());
  } catch (const std::exception& error) {  // an error such as std::bad_alloc fails only this request
    log::warn("{} failed: {}", exchange.id(), error.what());
    refusal = HttpError(500, "internal error: {}", error.what());
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
  if (exchange.status() == 0 || exchange.has_open_stream()) exchange.set_client_gone();
  exchange.stop_watching();
}

}  // namespace nibble::server
