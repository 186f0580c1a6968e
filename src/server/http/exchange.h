// One HTTP request and its answer, whole or as a stream of server-sent events, as an endpoint sees it. stream_exchange.h
// implements it on a connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace nibble::server {

namespace asio = boost::asio;

inline constexpr std::string_view kJsonType{"application/json"};
inline constexpr int kClientGone{499};  // the status that nginx logs when the client disconnects

// What is known of a request besides its bytes; the answer's endpoint fills it in.
struct RequestRecord {
  std::string client;       // its address
  std::string traceparent;  // W3C's Trace Context; empty if it sent none, or a wrong one
  std::string key_name;     // of its API key; empty where the server has none
  std::string key_owner;    // ApiKey::owner: requests with the same one are the same user's
  // Of a request that generates:
  std::string model;  // as it names it
  int num_prompt_tokens{0}, num_cached_tokens{0}, num_output_tokens{0};
  Stopwatch clock;  // started when it was read
  std::optional<double> first_token_seconds;
  std::string_view finish_reason;  // stop, length, abort, error; of several answers that of the last to end
};

// Writing throws boost::system::system_error if the client has disconnected.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual std::string_view method() const = 0;
  virtual std::string_view path() const = 0;                         // without what follows a '?'
  virtual std::string_view query() const = 0;                        // what follows it
  virtual std::string_view header(std::string_view name) const = 0;  // empty if it is absent
  virtual const std::string& body() const = 0;
  virtual void drop_body() = 0;  // frees the body's memory once it has been parsed
  virtual void free_body() = 0;  // the same, but what is made of it counts in its place
  // Counts further bytes that live as long as the body. Throws HttpError (429) if the budget is exhausted.
  virtual void reserve_more(uint64_t num_bytes) = 0;
  // The client's X-Request-Id if it is plain letters and digits, else a random one.
  virtual const std::string& id() const = 0;
  // The answer's status; 0 before there is one, kClientGone if the client disconnected.
  virtual int status() const = 0;
  virtual bool has_events() const = 0;  // the header of a stream has been sent

  // Adds a line to the header of the answer, if that has not been sent. Both must be plain letters without line ends.
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  virtual asio::awaitable<void> reply(int status, std::string_view content_type, std::string body) = 0;

  // Names the type of a stream's events; they are server-sent ones if it is not called.
  virtual void set_stream_type(std::string_view content_type) = 0;
  // Sends server-sent events; the first call sends the header too. end_events() ends the stream; its status is for the log.
  virtual asio::awaitable<void> write_events(std::string events) = 0;
  virtual asio::awaitable<void> end_events(int status) = 0;

  // Sets the function that is called once if the client closes the connection before the answer is complete, or at once if
  // it has closed it already. A later function replaces it.
  virtual void on_disconnect(std::function<void()> function) = 0;

  RequestRecord& record() { return record_; }
  const RequestRecord& record() const { return record_; }

 private:
  RequestRecord record_;
};

}  // namespace nibble::server
