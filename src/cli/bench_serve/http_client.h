// An HTTP client for concurrent requests on one thread. It times the events of streamed answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_serve/conversation.h"
#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/stream_event.h"
#include "core/system/clock.h"

namespace nibble::cli {

// A failed request. `kind`: the class under which the failure is counted. `example`: the message of this
// failure.
struct HttpFailure {
  std::string kind, example;

  std::string text() const { return example == kind ? kind : kind + ": " + example; }
};

struct StreamedAnswer {
  TimedAnswer times;
  AnswerText text;
};

class HttpClient {
 public:
  HttpClient(const Endpoint& endpoint, double timeout_seconds);

  boost::asio::io_context& io() { return io_; }
  double now() const { return clock_.seconds(); }

  boost::asio::awaitable<std::string> get(std::string path);  // throws HttpFailure
  // Receives each event of a streamed answer when it arrives.
  using Hear = std::function<void(const StreamEvent& event)>;
  // A failed request returns an answer with an error. `hear` may be empty.
  boost::asio::awaitable<StreamedAnswer> post(std::string path, std::string body, Hear hear = {});

 private:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  struct Connection {
    explicit Connection(const boost::asio::any_io_executor& executor) : stream(executor) {}
    boost::beast::tcp_stream stream;
    boost::beast::flat_buffer buffer;
  };

  Request head(boost::beast::http::verb verb, const std::string& path) const;
  boost::asio::awaitable<std::unique_ptr<Connection>> connect();
  boost::asio::awaitable<bool> listen(Connection& connection, StreamedAnswer& answer, const Hear& hear);
  void keep(std::unique_ptr<Connection> connection);  // keeps the connection open for the next request
  static bool is_open(Connection& connection);

  Endpoint endpoint_;
  std::chrono::nanoseconds timeout_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::resolver::results_type addresses_;
  std::vector<std::unique_ptr<Connection>> idle_;
  Stopwatch clock_;
};

// Sends one GET and waits for the body. Throws HttpFailure.
std::string fetch(const Endpoint& endpoint, const std::string& path, double timeout_seconds);

}  // namespace nibble::cli
