// What the routes share: the model that is served, the way to the engine, and the server's state. Of the I/O thread.
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
  int vocab{0};                      // ids below it exist
  int max_context{0};                // tokens of prompt and answer together
  std::vector<TokenId> stop_tokens;  // where the model ends an answer
  int64_t created{0};                // seconds since 1970
};

struct ServerOptions {
  std::string model_id;  // what clients call the model
  HttpAddress address{};
  std::vector<std::string> api_keys{};      // none: everybody is let in
  std::vector<std::string> cors_origins{};  // whose pages may ask from a browser; "*": all
  bool log_bodies{false};                   // of requests: whatever people ask
  std::string version{};
  HttpLimits limits{};
  size_t max_response_bytes{64 << 20};  // of conversations that are kept for previous_response_id
  std::chrono::milliseconds keep_alive{
      15'000};  // a stream without news sends a comment so often: proxies cut silent ones
  std::chrono::seconds shutdown_timeout{30};  // for the requests that run when the first signal comes
};

enum class ServiceState { kLoading, kReady, kDraining };

struct Service {
  explicit Service(const ServerOptions& given)
      : options(given), responses(given.max_response_bytes), metrics(given.model_id) {}

  const ServerOptions options;
  ResponseStore responses;
  Metrics metrics;
  ServiceState state{ServiceState::kLoading};
  // What takes long to read is read here: see aside().
  std::unique_ptr<asio::thread_pool> reader{std::make_unique<asio::thread_pool>(1)};
  // From kReady on:
  std::optional<ServedModel> model{};
  std::unique_ptr<EngineGate> gate{};
};

// What `work` answers, or throws. Reading a request of megabytes takes seconds, in which others' answers must go on: it is
// done on a thread of its own, where `work` may look at what never changes. Short ones do not wait for it.
template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> aside(Service& service, const Exchange& exchange, Work work) {
  constexpr size_t kShort{16 << 10};  // of a body, in bytes: some milliseconds
  if (exchange.body().size() <= kShort) co_return work();
  co_return co_await asio::co_spawn(
      *service.reader, [&work]() -> asio::awaitable<std::invoke_result_t<Work>> { co_return work(); },
      asio::use_awaitable);
}

// Throws ApiError (404) if the client asks for another model than the one that is served.
void check_model(const Service& service, const GenerationParams& params);

// For the engine: throws ApiError where the prompt is empty, too long, or not of this vocabulary.
Request make_request(const Service& service, const GenerationParams& params, std::vector<TokenId> prompt);

// What the model is to go on with. The day that it is told is today's, in local time.
harmony::Rendered render(const Service& service, harmony::Chat chat);

ReplyHead new_reply(const Service& service, std::string_view id_prefix);

// What an endpoint makes of the answers, choice by choice. What its functions answer is told to a client that streams; it
// may be empty.
class ChoiceListener {
 public:
  virtual ~ChoiceListener() = default;
  virtual std::string token(size_t choice, TokenEvent& event) = 0;
  // Asked after each token: the choice ends here, whatever the engine says.
  virtual bool has_enough(size_t choice) const = 0;
  // `text`: what the engine's stop rules had held back.
  virtual std::string end(size_t choice, FinishReason reason, const std::string& text) = 0;
};

struct TokenCounts {
  int num_output{0};  // of all choices
  int num_cached{0};  // of all prompts, as the first choice of each found them
};

// Runs `num_choices` answers to each prompt, in steps that they share. Nothing: the client has gone, and all is cancelled.
// Throws ApiError where the engine fails or the server stops.
asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<Request> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener);

// Ends a stream of chunks: with `usage`, a chunk, where it was asked for, and [DONE].
asio::awaitable<void> end_stream(Exchange& exchange, const GenerationParams& params, Json usage);

}  // namespace nibble::server
