// An HTTP request and its answer (whole, or a stream of server-sent events), as the interface for endpoints.
// stream_exchange.h implements it on a connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/clock.h"

namespace nibble::server {

namespace asio = boost::asio;

inline constexpr std::string_view kJsonType{"application/json"};
inline constexpr int kClientGone{499};  // the status that nginx logs when the client disconnects

// Times at which a generating request reached each stage, in seconds after it was read. nullopt: not reached.
// If a request has several answers, first_kernel and first_token are those of the answer whose first token
// came first; last_token is the last token of all answers.
struct RequestTimes {
  std::optional<double> tokenised;     // all prompts are tokenised
  std::optional<double> queued;        // the engine received the request
  std::optional<double> first_kernel;  // the backend got the first step with a token of this request
  std::optional<double> first_token;   // the step that sampled the first token has ended
  std::optional<double> first_byte;    // the first bytes of the answer were written to the connection
  std::optional<double> last_token;
};

// Facts about a request for the log and the metrics.
struct RequestRecord {
  std::string client;
  std::string traceparent;  // W3C Trace Context; empty if absent or invalid
  std::string key_name;     // name of the API key; empty if the server has no keys
  std::string key_owner;    // ApiKey::owner: the same for all requests of one user
  // Set only for requests that generate:
  std::string model;  // the model's name in the request
  int num_prompt_tokens{0}, num_cached_tokens{0}, num_output_tokens{0};
  Stopwatch clock;  // started when the request was read
  RequestTimes times;
  // "stop", "length", "abort" or "error"; with several choices, the value of the one that ended last
  std::string_view finish_reason;
};

// Functions that write throw boost::system::system_error if the client has disconnected.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual std::string_view method() const = 0;
  virtual std::string_view path() const = 0;                         // path of the URL, without the query
  virtual std::string_view query() const = 0;                        // part after the '?'
  virtual std::string_view header(std::string_view name) const = 0;  // empty if the header is absent
  virtual const std::string& body() const = 0;
  virtual void drop_body() = 0;  // frees the body and releases its share of the BodyBudget
  virtual void free_body() = 0;  // frees the body, but keeps its share of the budget for data parsed from it
  // Raises the body's share of the budget. Throws HttpError (429) if the budget is exhausted.
  virtual void reserve_more(uint64_t num_bytes) = 0;
  // Returns the client's X-Request-Id if it has only letters, digits and "-_."; otherwise a random id.
  virtual const std::string& id() const = 0;
  // Returns the status of the answer: 0 before the answer, kClientGone if the client disconnected.
  virtual int status() const = 0;
  virtual bool has_events() const = 0;  // whether a stream of events has begun; if so, its header was sent

  // Adds a line to the answer's header before it is sent. Name and value must not contain line breaks.
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  virtual asio::awaitable<void> reply(int status, std::string_view content_type, std::string body) = 0;

  // Sets the content type of a stream. Default: the type of server-sent events.
  virtual void set_stream_type(std::string_view content_type) = 0;
  // write_events() and end_events() stream an answer. The first write_events() also sends the header.
  // end_events() logs `status`.
  virtual asio::awaitable<void> write_events(std::string events) = 0;
  virtual asio::awaitable<void> end_events(int status) = 0;

  // Sets a function to call once if the client disconnects before the answer is complete. If the client has
  // already disconnected, the function is called at once. Replaces an earlier function.
  virtual void on_disconnect(std::function<void()> function) = 0;

  RequestRecord& record() { return record_; }
  const RequestRecord& record() const { return record_; }

 private:
  RequestRecord record_;
};

}  // namespace nibble::server
