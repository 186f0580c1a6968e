// The state that all endpoints share: the model, the gate to the engine, stored responses, metrics. It belongs to the I/O
// thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harmony/render.h"
#include "server/api/reply.h"
#include "server/api/request.h"
#include "server/api/response_store.h"
#include "server/engine_gate.h"
#include "server/http/http.h"
#include "server/metrics.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct ServedModel {
  const Tokenizer* tokenizer{nullptr};
  int vocab{0};                      // token ids are below this
  int max_context{0};                // tokens of one prompt and its answer together
  std::vector<TokenId> stop_tokens;  // any of these ends an answer
  int64_t created{0};                // seconds since 1970
};

struct ServerOptions {
  std::string model_id;  // the name by which clients ask for the model
  HttpAddress address{};
  std::vector<std::string> api_keys{};      // empty: no key is needed
  std::vector<std::string> cors_origins{};  // pages that may call from a browser; "*": all
  bool log_bodies{false};                   // log the bodies of requests, which hold what people ask
  std::string version{};
  HttpLimits limits{};
  size_t max_response_bytes{64 << 20};  // memory for conversations kept for previous_response_id
  // A stream without a token sends a comment this often, because proxies cut silent connections.
  std::chrono::milliseconds keep_alive{15'000};
  std::chrono::seconds shutdown_timeout{30};  // time for running requests after the first signal
};

enum class ServiceState { kLoading, kReady, kDraining };

struct Service {
  explicit Service(const ServerOptions& given)
      : options(given), responses(given.max_response_bytes), metrics(given.model_id) {}

  const ServerOptions options;
  ResponseStore responses;
  Metrics metrics;
  ServiceState state{ServiceState::kLoading};
  // One thread that parses long bodies: see aside().
  std::unique_ptr<asio::thread_pool> reader{std::make_unique<asio::thread_pool>(1)};
  // Set from kReady on:
  std::optional<ServedModel> model{};
  std::unique_ptr<EngineGate> gate{};
};

// Runs `work` and returns its result. For a long body it runs on a thread of its own, because parsing megabytes takes
// seconds, in which the I/O thread must go on sending other answers. There `work` may use only what never changes. With a
// short body it runs here, and does not wait behind long ones.
template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> aside(Service& service, const Exchange& exchange, Work work) {
  constexpr size_t kShort{16 << 10};  // bytes of a body that take some milliseconds to parse
  if (exchange.body().size() <= kShort) co_return work();
  co_return co_await asio::co_spawn(
      *service.reader, [&work]() -> asio::awaitable<std::invoke_result_t<Work>> { co_return work(); },
      asio::use_awaitable);
}

// Throws ApiError (404) if the client asks for another model than the one that is served.
void check_model(const Service& service, const GenerationParams& params);

// The request for the engine. Throws ApiError if the prompt is empty, too long, or not of this vocabulary.
Request make_request(const Service& service, const GenerationParams& params, std::vector<TokenId> prompt);

// The chat as the model's prompt. The date in it is today's, in local time.
harmony::Rendered render(const Service& service, harmony::Chat chat);

ReplyHead new_reply(const Service& service, std::string_view id_prefix);

// Receives the engine's events of each choice for one endpoint. token() and end() return the bytes to send to a client that
// streams; they may be empty.
class ChoiceListener {
 public:
  virtual ~ChoiceListener() = default;
  virtual std::string token(size_t choice, TokenEvent& event) = 0;
  // Called after each token: true ends the choice here (a chat's stop string, which the engine does not know).
  virtual bool has_enough(size_t choice) const = 0;
  // `text` is what the engine's stop rules had held back.
  virtual std::string end(size_t choice, FinishReason reason, const std::string& text) = 0;
};

struct TokenCounts {
  int num_output{0};  // tokens of all choices
  int num_cached{0};  // prompt tokens found in the prefix cache, counted once for each prompt
};

// Runs `params.num_choices` answers to each prompt, in steps that they share. Returns nothing if the client has
// disconnected; then all are cancelled. Throws ApiError if the engine fails or the server stops.
asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<Request> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener);

// Ends a stream of chunks: sends the chunk `usage` if the request asked for it, then [DONE].
asio::awaitable<void> end_stream(Exchange& exchange, const GenerationParams& params, Json usage);

}  // namespace nibble::server
