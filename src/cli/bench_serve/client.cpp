#include "cli/bench_serve/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "cli/bench_serve/event_stream.h"
#include "core/clock.h"
#include "core/error.h"

namespace nibble::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Json = nlohmann::ordered_json;
using boost::system::error_code;
using tcp = asio::ip::tcp;

struct Failure {
  std::string kind, example;  // failures are counted by `kind`; `example`: the message of this failure
};
Failure failure_of(const error_code& error) {
  std::string kind = error == beast::error::timeout ? "timeout" : error.message();
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof)
    kind = "connection closed before the answer was complete";
  return {kind, kind};
}

struct Connection {
  explicit Connection(const asio::any_io_executor& executor) : stream(executor) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

// Whether an idle connection can be reused: the server may have closed it.
bool is_open(Connection& connection) {
  char byte{};
  const auto taken = ::recv(connection.stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::string message_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) return error;
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"];
  }
  constexpr size_t kEnough{200};
  return body.substr(0, kEnough);
}

class Client {
 public:
  Client(const Endpoint& endpoint, double timeout_seconds)
      : endpoint_(endpoint),
        timeout_(std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(timeout_seconds))),
        resolver_(io_) {}

  asio::io_context& io() { return io_; }
  double now() const { return clock_.seconds(); }

  asio::awaitable<std::string> get(std::string path) {
    http::request<http::string_body> request = head(http::verb::get, path);
    std::unique_ptr<Connection> connection = co_await connect();
    error_code error;
    co_await http::async_write(connection->stream, request, asio::redirect_error(asio::use_awaitable, error));
    http::response<http::string_body> answer;
    if (!error)
      co_await http::async_read(connection->stream, connection->buffer, answer,
                                asio::redirect_error(asio::use_awaitable, error));
    if (error) throw failure_of(error);
    check_status(answer.result_int(), answer.body());
    co_return answer.body();
  }

  asio::awaitable<void> post(std::string path, std::string body, TimedAnswer& answer) {
    http::request<http::string_body> request = head(http::verb::post, path);
    request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.prepare_payload();
    answer.sent = now();
    try {
      std::unique_ptr<Connection> connection = co_await connect();
      error_code error;
      co_await http::async_write(connection->stream, request,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error) throw failure_of(error);
      if (co_await listen(*connection, answer)) {
        connection->stream.expires_never();
        idle_.push_back(std::move(connection));
      }
    } catch (const Failure& failure) {
      answer.error = failure.kind;
      answer.example = failure.example;
    }
    answer.ended = now();
  }

 private:
  http::request<http::string_body> head(http::verb verb, const std::string& path) const {
    http::request<http::string_body> request{verb, endpoint_.base + path, 11};
    request.set(http::field::host, endpoint_.host + ":" + endpoint_.port);
    request.set(http::field::user_agent, "nibble");
    if (!endpoint_.api_key.empty()) request.set(http::field::authorization, "Bearer " + endpoint_.api_key);
    return request;
  }

  // Reuses an idle connection if one is open. The connection's timeout starts now.
  asio::awaitable<std::unique_ptr<Connection>> connect() {
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

  static void check_status(unsigned status, const std::string& body) {
    if (status != 200) throw Failure{fmt::format("HTTP {}", status), message_of(body)};
  }

  // Returns true if the connection can be reused. Feeds the parser each read as it arrives, because
  // http::async_read_some holds back a chunk until the header of the next one has arrived.
  asio::awaitable<bool> listen(Connection& connection, TimedAnswer& answer) {
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
        for (const std::string& data : events.push(part)) is_done |= take(data, arrived, answer);
    }
    check_status(parser.get().result_int(), said);
    if (!is_done) throw Failure{"no streamed answer", "the answer ended without the event [DONE]"};
    co_return parser.keep_alive();
  }

  static bool take(const std::string& data, double arrived, TimedAnswer& answer) {
    const StreamEvent event = read_event(data);
    if (!event.error.empty()) throw Failure{"error in the stream", event.error};
    if (event.has_text) answer.texts.push_back(arrived);
    if (event.num_prompt_tokens) answer.num_prompt_tokens = event.num_prompt_tokens;
    if (event.num_output_tokens) answer.num_output_tokens = event.num_output_tokens;
    if (event.num_cached_tokens) answer.num_cached_tokens = event.num_cached_tokens;
    return event.is_done;
  }

  Endpoint endpoint_;
  std::chrono::nanoseconds timeout_;
  asio::io_context io_{1};
  tcp::resolver resolver_;
  tcp::resolver::results_type addresses_;
  std::vector<std::unique_ptr<Connection>> idle_;
  Stopwatch clock_;
};

std::optional<int64_t> integer(const Json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_number_integer()) return std::nullopt;
  return object[name].get<int64_t>();
}

bool is_text(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() &&
         !object[name].get_ref<const std::string&>().empty();
}

bool has_text(const Json& choice) {
  if (!choice.is_object()) return false;
  if (is_text(choice, "text")) return true;
  if (!choice.contains("delta") || !choice["delta"].is_object()) return false;
  const Json& delta = choice["delta"];
  const bool has_call =
      delta.contains("tool_calls") && delta["tool_calls"].is_array() && !delta["tool_calls"].empty();
  return has_call || is_text(delta, "content") || is_text(delta, "reasoning") ||
         is_text(delta, "reasoning_content");
}

}  // namespace

std::string Endpoint::url() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port, base);
}

Endpoint read_endpoint(const std::string& url) {
  constexpr std::string_view kScheme{"http://"}, kTls{"https://"}, kBase{"/v1"};
  const auto refuse = [&](std::string_view why) {
    return InputError("'{}': {}; expected a URL such as http://127.0.0.1:8080", url, why);
  };
  if (url.starts_with(kTls))
    throw refuse("TLS is not supported; use the address of the server behind the proxy");
  if (!url.starts_with(kScheme)) throw refuse("it does not begin with http://");
  std::string rest = url.substr(kScheme.size());
  while (rest.ends_with('/')) rest.pop_back();
  Endpoint endpoint;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string address = rest.substr(0, slash);
  endpoint.base = rest.substr(slash);
  if (!endpoint.base.ends_with(kBase)) endpoint.base += kBase;

  const size_t bracket = address.find(']');
  const size_t colon = address.find(':', bracket == std::string::npos ? 0 : bracket);
  endpoint.port = colon == std::string::npos ? "80" : address.substr(colon + 1);
  endpoint.host = address.substr(0, colon);
  if (bracket != std::string::npos && address.front() == '[') endpoint.host = address.substr(1, bracket - 1);
  uint16_t port{};
  const char* end = endpoint.port.data() + endpoint.port.size();
  const auto [stop, error] = std::from_chars(endpoint.port.data(), end, port);
  if (error != std::errc{} || stop != end || port == 0)
    throw refuse("its port is not a number from 1 to 65535");
  if (endpoint.host.empty() || url.find_first_of(" \t\r\n") != std::string::npos)
    throw refuse("it has no host");
  return endpoint;
}

std::string path_of(BenchApi api) { return api == BenchApi::kChat ? "/chat/completions" : "/completions"; }

std::string first_model(const Endpoint& endpoint, double timeout_seconds) {
  Client client(endpoint, timeout_seconds);
  std::string body;
  std::optional<Failure> failure;
  asio::co_spawn(
      client.io(),
      [&]() -> asio::awaitable<void> {
        try {
          body = co_await client.get("/models");
        } catch (const Failure& failed) {
          failure = failed;
        }
      },
      asio::detached);
  client.io().run();
  if (failure)
    throw InputError("{}/models: request failed: {}{}; is this a server with the OpenAI API?", endpoint.url(),
                     failure->kind, failure->example == failure->kind ? "" : ": " + failure->example);
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("data") && json["data"].is_array())
    for (const Json& row : json["data"])
      if (row.is_object() && is_text(row, "id")) return row["id"];
  throw InputError("{}/models lists no model; give one with --model", endpoint.url());
}

std::vector<TimedAnswer> run_requests(const Endpoint& endpoint, const RequestLoad& load,
                                      double timeout_seconds) {
  const Arrivals& arrivals = load.arrivals;
  std::vector<TimedAnswer> answers(static_cast<size_t>(load.count));
  Client client(endpoint, timeout_seconds);
  const auto post = [&](int i) {
    return client.post(path_of(load.api), load.body_of(i).dump(), answers[static_cast<size_t>(i)]);
  };
  int num_begun = 0;
  const auto ask_in_turn = [&]() -> asio::awaitable<void> {
    while (num_begun < load.count) co_await post(num_begun++);
  };
  const auto ask_at = [&](int i) -> asio::awaitable<void> {
    asio::steady_timer timer(client.io());
    timer.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(arrivals.times[static_cast<size_t>(i)] - client.now())));
    co_await timer.async_wait(asio::use_awaitable);
    co_await post(i);
  };
  const auto rethrow = [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  };
  for (int i = 0; i < arrivals.num_clients; ++i) asio::co_spawn(client.io(), ask_in_turn(), rethrow);
  if (arrivals.num_clients == 0)
    for (int i = 0; i < load.count; ++i) asio::co_spawn(client.io(), ask_at(i), rethrow);
  client.io().run();
  return answers;
}

StreamEvent read_event(const std::string& data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.is_done = true;
    return event;
  }
  const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    event.error = "an event is not a JSON object";
    return event;
  }
  if (json.contains("error") && !json["error"].is_null()) {
    event.error = message_of(data);
    if (event.error.empty()) event.error = "without a message";
    return event;
  }
  if (json.contains("choices") && json["choices"].is_array())
    for (const Json& choice : json["choices"]) event.has_text |= has_text(choice);
  if (json.contains("usage") && json["usage"].is_object()) {
    const Json& usage = json["usage"];
    event.num_prompt_tokens = integer(usage, "prompt_tokens");
    event.num_output_tokens = integer(usage, "completion_tokens");
    if (usage.contains("prompt_tokens_details") && usage["prompt_tokens_details"].is_object())
      event.num_cached_tokens = integer(usage["prompt_tokens_details"], "cached_tokens");
  }
  return event;
}

}  // namespace nibble::cli
