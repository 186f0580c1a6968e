// One HTTP request and its answer, whole or as a stream of events, on a connection that http.cpp keeps.
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
  // All bodies that are being sent or read together, but for those that are this short. A full queue of prompts of
  // 131,072 tokens, some 600 kB each, takes 160 MB.
  uint64_t max_bodies_bytes{256 << 20};
  uint64_t uncounted_body_bytes{16 << 10};
  // A connection that takes longer is closed.
  std::chrono::seconds read_timeout{60};   // to send a request's header, and again its body
  std::chrono::seconds idle_timeout{75};   // between two requests
  std::chrono::seconds write_timeout{30};  // to take what was written
};

inline constexpr std::string_view kJson{"application/json"};
inline constexpr int kClientGone{499};  // what nginx logs for it

// Writing throws boost::system::system_error where the client has gone.
class Exchange {
 public:
  using Head = boost::beast::http::request<boost::beast::http::string_body>;

  // `extra_lines`: of the answer's header, each with its end.
  Exchange(Stream& stream, const HttpLimits& limits, bool keep_alive, Head head,
           std::string extra_lines = "");
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::string_view method() const;
  std::string_view path() const;                         // without what follows a '?'
  std::string_view header(std::string_view name) const;  // empty where it is absent
  const std::string& body() const { return head_.body(); }
  void drop_body();  // it has been read: its memory is for others
  // Something comes to the body that takes memory as long as it. Throws ApiError (429) where there is none for it.
  void hold_more(uint64_t num_bytes) { body_share_->cover_more(num_bytes); }
  const std::string& id() const {
    return id_;
  }  // the client's X-Request-Id where it is a plain one, else ours
  int status() const {
    return status_;
  }  // of the answer; 0: none yet, kClientGone: nobody was there to have it
  bool keeps_alive() const { return keep_alive_; }

  asio::awaitable<void> reply(int status, harmony::Json json);
  asio::awaitable<void> reply_text(int status, std::string_view content_type, std::string body);
  asio::awaitable<void> reply(const ApiError& error);

  // Server-sent events; the first call sends the header. The last one says how it went, for the log.
  asio::awaitable<void> write_events(std::string events);
  asio::awaitable<void> end_events(int status);

  // Called once if the client closes the connection before the answer is complete, or has closed it already. Another
  // function takes its place.
  void on_disconnect(std::function<void()> function);

 private:
  friend class HttpServer;
  struct Watch {
    bool has_ended{false}, is_gone{false};
    std::function<void()> on_disconnect;
  };

  void watch();  // from now on a disconnection is told
  std::string head_lines(int status, std::string_view content_type) const;
  asio::awaitable<void> write(const std::string& bytes);

  Stream& stream_;
  const HttpLimits& limits_;
  bool keep_alive_;
  Head head_;
  std::optional<BodyBudget::Share> body_share_;  // of the body in head_
  std::string extra_lines_;
  std::string id_;
  std::shared_ptr<Watch> watch_;
  int status_{0};
  bool has_events_{false};
};

inline std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace nibble::server
