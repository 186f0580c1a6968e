// The state that all endpoints share: the model, the gate to the engine, stored responses, metrics. It belongs to the I/O
// thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/api/generation_params.h"
#include "server/api/reply.h"
#include "server/api/response_store.h"
#include "server/http/exchange.h"
#include "server/service/metrics.h"
#include "server/service/options.h"

namespace nibble::server {

class EngineGate;
class GrammarShelf;  // service/constraint.h
class ParsePool;

class BackgroundResponse;  // endpoints/responses.cpp

enum class ServiceState {
  kLoading,
  kReady,
  kLeaving,   // a signal has come: requests are still taken, but /health sends them elsewhere
  kDraining,  // new requests are refused
};

struct Service {
  explicit Service(const ServerOptions& given);
  ~Service();
  void reload();  // SIGHUP has come

  const ServerOptions options;
  ApiKeys keys;
  const std::string fingerprint;  // of this version and model: OpenAI's system_fingerprint
  ResponseStore responses;
  std::unordered_map<std::string, std::shared_ptr<BackgroundResponse>>
      background;  // those that are not complete, by id
  Metrics metrics;
  ServiceState state{ServiceState::kLoading};
  std::vector<std::function<void()>> on_reload;  // what SIGHUP reads again; each reports its own errors
  uint64_t num_answered{0};                      // HTTP requests
  std::unique_ptr<ParsePool> parse_pool;         // for offload_if_long()
  int num_offloaded{0};                          // requests that wait for it
  // Set from kReady on:
  std::optional<ServedModel> model{};
  std::unique_ptr<GrammarShelf> grammars;  // made at first use
  std::unique_ptr<EngineGate> gate;
};

// Runs `work`. For a long body it runs on a thread of the parse pool, because parsing megabytes takes seconds, in which the I/O
// thread must go on sending other answers. There `work` may use only what never changes. With a short body it runs here, and
// does not wait for long ones. If the client leaves before `work` has begun it does not run, and this throws system_error.
asio::awaitable<void> offload_if_long(Service& service, Exchange& exchange, std::function<void()> work);
asio::awaitable<void> offload_if(Service& service, bool is_long, std::function<void()> work);

// Reads the API keys again, on SIGHUP. If they can't be read the old ones stay, and the log says why.
void reload_keys(Service& service);

// Throws HttpError (404) if the client asks for another model than the one that is served.
void check_model(const Service& service, const GenerationParams& params);
void check_model(const Service& service, const std::string& name);

// Cuts max_tokens to what the server allows, and adds it to the ignored fields where that changed it; sets it where it is absent.
void limit_output(const Service& service, GenerationParams& params);

// Tells the client, in the header X-Nibble-Ignored, and the log which fields of its request have no effect. With --strict throws HttpError
// (400). Called before anything is sent.
void note_ignored(const Service& service, Exchange& exchange, const IgnoredFields& ignored);

ReplyHead new_reply(const Service& service, std::string_view id_prefix);

asio::awaitable<void> reply_json(Exchange& exchange, int status, const Json& json);

// Receives the engine's events of each choice for one endpoint. on_token() and on_end() return the bytes to send to a client that
// streams; they may be empty.
class ChoiceListener {
 public:
  virtual ~ChoiceListener() = default;
  virtual std::string on_token(size_t choice, TokenEvent& event) = 0;
  // Called after each token: true ends the choice here (a chat's stop string, which the engine does not know).
  virtual bool has_enough(size_t choice) const = 0;
  // `text` is what the engine's stop rules had held back.
  virtual std::string on_end(size_t choice, FinishReason reason, const std::string& text) = 0;
  // Gives what a stream sends when it has been silent for a while.
  virtual std::string on_silence() { return std::string(kSseKeepAlive); }
};

struct TokenCounts {
  int num_output{0};  // tokens of all choices
  int num_cached{0};  // prompt tokens found in the prefix cache, counted once for each prompt
};

// Runs `params.num_choices` answers to each prompt, in steps that they share. Returns nothing if the client has
// disconnected; then all are cancelled. When ServerOptions::request_timeout has passed, answers end as if max_tokens were reached.
// Throws HttpError if none has a token by then (504), the engine fails or the server stops.
asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<GenerationRequest> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener);

// Ends a stream of chunks: sends the chunk `usage` if the request asked for it, then [DONE].
asio::awaitable<void> end_stream(Exchange& exchange, const GenerationParams& params, const Json& usage);

}  // namespace nibble::server
