#include "server/http/http.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <cstring>
#include <filesystem>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"

namespace nibble::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using boost::system::system_error;
using tcp = asio::ip::tcp;

// Lingering close: if a socket is closed while the client still sends, the kernel resets the connection, and the answer is
// lost. So after the last answer the rest of the input is read and dropped, up to these limits.
constexpr std::chrono::seconds kLingerTime{5};
constexpr size_t kLingerBytes{64 << 20};

tcp::endpoint endpoint_of(const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    throw InputError("--host '{}': accepted is an address as 127.0.0.1, 0.0.0.0 or ::, or localhost", host);
  return {address, port};
}

// Size of the read buffer. Twice the header's limit, so that a header over the limit is recognised as such; it also bounds
// the extensions and trailers of chunks, which the parser does not limit.
size_t buffer_bytes(const HttpLimits& limits) { return 2 * size_t{limits.max_header_bytes}; }

ApiError error_of(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::body_limit)
    return ApiError(413, "the body is too large: at most {} bytes are accepted", limits.max_body_bytes);
  if (error == http::error::header_limit)
    return ApiError(431, "the header is too large: at most {} bytes are accepted", limits.max_header_bytes);
  if (error == http::error::buffer_overflow)
    return ApiError(431, "what a chunk has beside its data is too large: at most {} bytes are accepted",
                    buffer_bytes(limits));
  return ApiError(400, "the request is no HTTP: {}", error.message());
}

// Removes the socket file that a killed server left behind: bind() would fail on it for ever.
void remove_stale_socket(asio::io_context& io, const asio::local::stream_protocol::endpoint& endpoint) {
  std::error_code unknown;
  if (!std::filesystem::is_socket(endpoint.path(), unknown)) return;
  asio::local::stream_protocol::socket probe(io);
  error_code error;
  probe.connect(endpoint, error);
  if (error == asio::error::connection_refused) ::unlink(endpoint.path().c_str());
}

bool is_http_error(const error_code& error) {
  static const error_code any = http::error::bad_method;
  return error && error.category() == any.category() && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

asio::awaitable<void> linger(Stream& stream) {
  error_code error;
  stream.socket().shutdown(asio::socket_base::shutdown_send, error);
  stream.expires_after(kLingerTime);
  std::string taken(16 << 10, '\0');
  for (size_t num_bytes = 0; !error && num_bytes < kLingerBytes;)
    num_bytes += co_await stream.async_read_some(asio::buffer(taken),
                                                 asio::redirect_error(asio::use_awaitable, error));
}

}  // namespace

HttpServer::HttpServer(asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
                       std::vector<std::string> cors_origins, HttpHandler& handler)
    : limits_(limits),
      cors_origins_(std::move(cors_origins)),
      handler_(handler),
      bodies_(std::make_shared<BodyBudget>(limits.max_bodies_bytes, limits.uncounted_body_bytes)),
      acceptor_(io),
      connection_ended_(io) {
  if (!address.unix_socket.empty()) {
    try {
      const asio::local::stream_protocol::endpoint endpoint(address.unix_socket);
      remove_stale_socket(io, endpoint);
      listen(endpoint.protocol(), endpoint);
    } catch (const system_error& error) {
      throw InputError("--unix-socket '{}' can't be listened on: {}", address.unix_socket,
                       error.code().message());
    }
    unix_socket_ = address.unix_socket;
    return;
  }
  const tcp::endpoint endpoint = endpoint_of(address.host, address.port);
  try {
    listen(endpoint.protocol(), endpoint);
  } catch (const system_error& error) {
    throw InputError("{}:{} can't be listened on: {}; --host and --port name another address", address.host,
                     address.port, error.code().message());
  }
  const Protocol::endpoint bound = acceptor_.local_endpoint();
  tcp::endpoint local;
  local.resize(bound.size());
  std::memcpy(local.data(), bound.data(), bound.size());
  port_ = local.port();
}

HttpServer::~HttpServer() {
  if (!unix_socket_.empty()) ::unlink(unix_socket_.c_str());
}

void HttpServer::listen(const Protocol& protocol, const Protocol::endpoint& endpoint) {
  acceptor_.open(protocol);
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen();
}

void HttpServer::start() { asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached); }

asio::awaitable<void> HttpServer::accept() {
  constexpr std::chrono::milliseconds kPause{100};
  for (;;) {
    error_code error;
    const bool is_full = num_connections_ >= limits_.max_connections;
    Protocol::socket socket(acceptor_.get_executor());
    if (!is_full) {
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) log::warn("a connection could not be accepted: {}", error.message());
    }
    if (is_full || error) {  // an error may be that no file descriptor is free: try again later
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

asio::awaitable<void> HttpServer::serve(Protocol::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true),
                    ignored);  // sends each event at once; fails on Unix sockets, which need it not
  Stream stream(std::move(socket));
  Buffer buffer(buffer_bytes(limits_));
  bool is_first = true;
  while (co_await serve_one(stream, buffer, is_first)) is_first = false;
  co_await linger(stream);
}

// A CORS preflight, which a browser sends before a page's own request. It carries no key, so it is answered without one.
bool HttpServer::is_preflight(const Exchange::Head& request) const {
  return !cors_origins_.empty() && request.method() == http::verb::options &&
         request.count(http::field::access_control_request_method) > 0;
}

std::string HttpServer::cors_lines(const Exchange::Head& request) const {
  const std::string origin(to_std(request[http::field::origin]));
  const auto is_known = [&](const std::string& known) { return known == "*" || known == origin; };
  if (origin.empty() || std::none_of(cors_origins_.begin(), cors_origins_.end(), is_known)) return {};
  std::string lines = fmt::format(
      "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\nAccess-Control-Expose-Headers: X-Request-Id\r\n",
      origin);
  if (!is_preflight(request)) return lines;
  lines += "Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Max-Age: 86400\r\n";
  const auto asked = request[http::field::access_control_request_headers];
  if (!asked.empty()) lines += fmt::format("Access-Control-Allow-Headers: {}\r\n", to_std(asked));
  return lines;
}

// Serves one request. Returns false if the connection is to be closed.
asio::awaitable<bool> HttpServer::serve_one(Stream& stream, Buffer& buffer, bool is_first) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(limits_.max_header_bytes);
  parser.body_limit(limits_.max_body_bytes);
  error_code error;
  stream.expires_after(is_first ? limits_.read_timeout : limits_.idle_timeout);
  co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error && !is_http_error(error)) co_return false;  // closed by the client, or timed out
  const Stopwatch watch;

  std::optional<ApiError> refusal;
  const bool asks_first = !error && is_preflight(parser.get());
  if (error) {
    refusal = error_of(error, limits_);
  } else if (!asks_first) {
    try {
      handler_.admit(Exchange(stream, limits_, true, parser.get()));
    } catch (const ApiError& refused) {
      refusal = refused;
    }
  }
  BodyBudget::Share share(bodies_);
  const auto take_room = [&](uint64_t num_bytes) {
    try {
      share.cover(num_bytes);
    } catch (const ApiError& full) {
      refusal = full;
    }
  };
  if (!refusal) take_room(parser.content_length().value_or(0));
  if (!refusal && !parser.is_done()) {
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream, asio::buffer(go_on), asio::use_awaitable);
    }
    stream.expires_after(limits_.read_timeout);
    parser.eager(true);
    while (!error && !refusal && !parser.is_done()) {
      co_await http::async_read_some(stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
      take_room(parser.get().body().size());  // for chunked bodies, whose length is not declared
    }
    if (error && !is_http_error(error)) co_return false;
    if (error) refusal = error_of(error, limits_);
  }
  stream.expires_never();

  const bool keep_alive = parser.is_done() && !error && parser.keep_alive() && !is_draining_;
  std::string extra_lines = cors_lines(parser.get());
  Exchange exchange(stream, limits_, keep_alive, parser.release(), std::move(extra_lines));
  exchange.body_share_.emplace(std::move(share));
  const std::shared_ptr<char> counted = exchanges_;
  if (asks_first) {
    co_await exchange.reply_text(204, "", "");
    co_return exchange.keeps_alive();
  }
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
  } catch (const std::exception& error) {  // such as std::bad_alloc: only this request fails
    log::warn("{} failed: {}", exchange.id(), error.what());
    refusal = ApiError(500, "the request could not be answered: {}", error.what());
  }
  exchange.on_disconnect(nullptr);
  try {
    if (refusal) {
      exchange.drop_body();
      co_await exchange.reply(*refusal);
    }
  } catch (const system_error&) {
    exchange.status_ = kClientGone;
  }
  if (exchange.status_ == 0) exchange.status_ = kClientGone;
  error_code ignored;
  exchange.stream_.socket().cancel(ignored);  // ends watch()
}

}  // namespace nibble::server
