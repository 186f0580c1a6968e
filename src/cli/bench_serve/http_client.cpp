#include "cli/bench_serve/http_client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>
#include <utility>

#include "cli/bench_serve/event_stream.h"

namespace nibble::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

HttpFailure failure_of(const error_code& error) {
  std::string kind = error == beast::error::timeout ? "timeout" : error.message();
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof)
    kind = "connection closed before the answer was complete";
  return {kind, kind};
}

void check_status(unsigned status, const std::string& body) {
  if (status != 200) throw HttpFailure{fmt::format("HTTP {}", status), message_of(body)};
}

// Returns true for the event that ends the stream.
bool take(const std::string& data, double arrived, StreamedAnswer& answer, const HttpClient::Hear& hear) {
  const StreamEvent event = read_event(data);
  if (!event.error.empty()) throw HttpFailure{"error in the stream", event.error};
  add_event(event, arrived, answer.times);
  if (hear) hear(event);
  answer.text.content += event.content;
  answer.text.tokens.insert(answer.text.tokens.end(), event.tokens.begin(), event.tokens.end());
  return event.is_done;
}

}  // namespace

HttpClient::HttpClient(const Endpoint& endpoint, double timeout_seconds)
    : endpoint_(endpoint),
      timeout_(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(timeout_seconds))),
      resolver_(io_) {}

asio::awaitable<std::string> HttpClient::get(std::string path) {
  const Request request = head(http::verb::get, path);
  std::unique_ptr<Connection> connection = co_await connect();
  error_code error;
  co_await http::async_write(connection->stream, request, asio::redirect_error(asio::use_awaitable, error));
  http::response<http::string_body> answer;
  if (!error)
    co_await http::async_read(connection->stream, connection->buffer, answer,
                              asio::redirect_error(asio::use_awaitable, error));
  if (error) throw failure_of(error);
  check_status(answer.result_int(), answer.body());
  if (answer.keep_alive()) keep(std::move(connection));
  co_return answer.body();
}

asio::awaitable<StreamedAnswer> HttpClient::post(std::string path, std::string body, Hear hear) {
  Request request = head(http::verb::post, path);
  request.set(http::field::content_type, "application/json");
  request.body() = std::move(body);
  request.prepare_payload();
  StreamedAnswer answer;
  answer.times.sent = now();
  try {
    std::unique_ptr<Connection> connection = co_await connect();
    error_code error;
    co_await http::async_write(connection->stream, request, asio::redirect_error(asio::use_awaitable, error));
    if (error) throw failure_of(error);
    if (co_await listen(*connection, answer, hear)) keep(std::move(connection));
  } catch (const HttpFailure& failure) {
    answer.times.error = failure.kind;
    answer.times.example = failure.example;
  }
  answer.times.ended = now();
  co_return answer;
}

HttpClient::Request HttpClient::head(http::verb verb, const std::string& path) const {
  Request request{verb, path, 11};
  request.set(http::field::host, endpoint_.host + ":" + endpoint_.port);
  request.set(http::field::user_agent, "nibble");
  if (!endpoint_.api_key.empty()) request.set(http::field::authorization, "Bearer " + endpoint_.api_key);
  return request;
}

// Returns an idle connection that is still open, or else a new one. Starts the connection's timeout.
asio::awaitable<std::unique_ptr<HttpClient::Connection>> HttpClient::connect() {
  while (!idle_.empty()) {
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    if (!is_open(*connection)) continue;
    connection->stream.expires_after(timeout_);
    co_return connection;
  }
  error_code error;
  if (addresses_.empty())
    addresses_ = co_await resolver_.async_resolve(endpoint_.host, endpoint_.port,
                                                  asio::redirect_error(asio::use_awaitable, error));
  auto connection = std::make_unique<Connection>(io_.get_executor());
  connection->stream.expires_after(timeout_);
  if (!error)
    co_await connection->stream.async_connect(addresses_, asio::redirect_error(asio::use_awaitable, error));
  if (error) throw failure_of(error);
  error_code ignored;
  connection->stream.socket().set_option(tcp::no_delay(true), ignored);
  co_return connection;
}

void HttpClient::keep(std::unique_ptr<Connection> connection) {
  connection->stream.expires_never();
  idle_.push_back(std::move(connection));
}

// Whether an idle connection can be reused; the server may have closed it.
bool HttpClient::is_open(Connection& connection) {
  char byte{};
  const auto taken = ::recv(connection.stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

// Returns true if the connection can be reused. Passes bytes to the parser as they arrive:
// http::async_read_some would hold back a chunk until the next chunk's header has arrived.
asio::awaitable<bool> HttpClient::listen(Connection& connection, StreamedAnswer& answer, const Hear& hear) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  parser.eager(true);
  EventStream events;
  std::string said;
  bool is_done = false;
  while (!parser.is_done()) {
    constexpr size_t kReadBytes{16 << 10};
    error_code error;
    const size_t num_read = co_await connection.stream.async_read_some(
        connection.buffer.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, error));
    const double arrived = now();
    connection.buffer.commit(num_read);
    if (error == asio::error::eof && parser.got_some())
      parser.put_eof(error = {});
    else if (!error)
      connection.buffer.consume(parser.put(connection.buffer.data(), error));
    if (error && error != http::error::need_more) throw failure_of(error);
    const std::string part = std::exchange(parser.get().body(), {});
    if (parser.get().result_int() != 200)
      said += part;
    else
      for (const std::string& data : events.push(part)) is_done |= take(data, arrived, answer, hear);
  }
  check_status(parser.get().result_int(), said);
  if (!is_done) throw HttpFailure{"no streamed answer", "the answer ended without the event [DONE]"};
  co_return parser.keep_alive();
}

std::string fetch(const Endpoint& endpoint, const std::string& path, double timeout_seconds) {
  HttpClient client(endpoint, timeout_seconds);
  std::string body;
  std::optional<HttpFailure> failure;
  asio::co_spawn(
      client.io(),
      [&]() -> asio::awaitable<void> {
        try {
          body = co_await client.get(path);
        } catch (const HttpFailure& failed) {
          failure = failed;
        }
      },
      asio::detached);
  client.io().run();
  if (failure) throw *failure;
  return body;
}

}  // namespace nibble::cli
