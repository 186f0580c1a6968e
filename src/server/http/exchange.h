// One HTTP request and its answer, whole or as a stream of server-sent events. http.cpp owns the connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/api_error.h"
#include "server/http/body_budget.h"

namespace nibble::server {

namespace asio = boost::asio;

using Stream = boost::beast::basic_stream<asio::generic::stream_protocol>;

struct HttpLimits {
  int max_connections{1024};  // further ones wait in the system's backlog
  uint32_t max_header_bytes{16 << 10};
  uint64_t max_body_bytes{8 << 20};
  // Memory of all bodies together while they arrive and are parsed; bodies of at most `uncounted_body_bytes` do not count.
  // A full queue of prompts of 131,072 tokens, some 600 kB each, takes 160 MB.
  uint64_t max_bodies_bytes{256 << 20};
  uint64_t uncounted_body_bytes{16 << 10};
  // A connection that exceeds one of these is closed.
  std::chrono::seconds read_timeout{60};   // for a request's header, and again for its body
  std::chrono::seconds idle_timeout{75};   // between two requests
  std::chrono::seconds write_timeout{30};  // for the client to receive what was written
};

inline constexpr std::string_view kJson{"application/json"};
inline constexpr int kClientGone{499};  // the status that nginx logs when the client disconnects

// Writing throws boost::system::system_error if the client has disconnected.
class Exchange {
 public:
  using Head = boost::beast::http::request<boost::beast::http::string_body>;

  // `extra_lines` are added to the answer's header; each ends in "\r\n".
  Exchange(Stream& stream, const HttpLimits& limits, bool keep_alive, Head head,
           std::string extra_lines = "");
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::string_view method() const;
  std::string_view path() const;                         // without what follows a '?'
  std::string_view header(std::string_view name) const;  // empty where it is absent
  const std::string& body() const { return head_.body(); }
  void drop_body();  // frees the body's memory once it has been parsed
  // Counts further bytes that live as long as the body. Throws ApiError (429) if the budget is exhausted.
  void hold_more(uint64_t num_bytes) { body_share_->cover_more(num_bytes); }
  // The client's X-Request-Id if it is plain letters and digits, else a random one.
  const std::string& id() const { return id_; }
  // The answer's status; 0 before there is one, kClientGone if the client disconnected.
  int status() const { return status_; }
  bool keeps_alive() const { return keep_alive_; }

  asio::awaitable<void> reply(int status, harmony::Json json);
  asio::awaitable<void> reply_text(int status, std::string_view content_type, std::string body);
  asio::awaitable<void> reply(const ApiError& error);

  // Sends server-sent events; the first call sends the header too. end_events() ends the stream; its status is for the log.
  asio::awaitable<void> write_events(std::string events);
  asio::awaitable<void> end_events(int status);

  // Sets the function that is called once if the client closes the connection before the answer is complete, or at once if
  // it has closed it already. A later function replaces it.
  void on_disconnect(std::function<void()> function);

 private:
  friend class HttpServer;
  struct Watch {
    bool has_ended{false}, is_gone{false};
    std::function<void()> on_disconnect;
  };

  void watch();  // starts to look for a disconnection
  std::string head_lines(int status, std::string_view content_type) const;
  asio::awaitable<void> write(const std::string& bytes);

  Stream& stream_;
  const HttpLimits& limits_;
  bool keep_alive_;
  Head head_;
  std::optional<BodyBudget::Share> body_share_;  // for the body in head_
  std::string extra_lines_;
  std::string id_;
  std::shared_ptr<Watch> watch_;
  int status_{0};
  bool has_events_{false};
};

inline std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace nibble::server
