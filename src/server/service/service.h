// State shared by the endpoints: model, gate to the engine, stored responses, metrics. I/O thread only.
#pragma once

#include <atomic>
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
#include "server/service/kept_answers.h"
#include "server/service/metrics.h"
#include "server/service/options.h"
#include "server/service/recent_requests.h"

namespace nibble::server {

class EngineGate;
class GrammarShelf;
class ParsePool;

class BackgroundResponse;  // endpoints/responses.h

enum class ServiceState {
  kLoading,
  kReady,
  kLeaving,   // a signal has arrived: requests are still accepted, but /health sends new ones elsewhere
  kDraining,  // new requests are refused
};

struct Service {
  explicit Service(const ServerOptions& given);
  ~Service();
  void reload();  // called on SIGHUP

  const ServerOptions options;
  ApiKeys keys;
  const std::string fingerprint;  // OpenAI's system_fingerprint: identifies this version and model
  ResponseStore responses;
  KeptAnswers kept_answers;
  // Background responses that are not complete, by id.
  std::unordered_map<std::string, std::shared_ptr<BackgroundResponse>> background;
  Metrics metrics;
  ServiceState state{ServiceState::kLoading};
  std::atomic<int> loading_percent{-1};          // set by the thread that loads the model; -1: not known
  std::vector<std::function<void()>> on_reload;  // called by reload(); each reports its own errors
  RecentRequests recent_requests;                // shown by /status
  uint64_t num_answered{0};                      // number of HTTP requests answered
  std::unique_ptr<ParsePool> parse_pool;         // runs the work of offload_if_long()
  int num_offloaded{0};                          // requests that wait for parse_pool
  // These are set when the state becomes kReady:
  std::optional<ServedModel> model{};
  std::unique_ptr<GrammarShelf> grammars;  // created at first use
  std::unique_ptr<EngineGate> gate;
};

// Runs `work` directly for a short body, on the parse pool for a long one: parsing megabytes takes seconds,
// and the I/O thread must keep sending. On the pool `work` may use only immutable state. Throws system_error
// if the client leaves before `work` starts.
asio::awaitable<void> offload_if_long(Service& service, Exchange& exchange, std::function<void()> work);
asio::awaitable<void> offload_if(Service& service, bool is_long, std::function<void()> work);
// Like offload_if_long(), for work that tokenises the prompts. Stores the time of its end in
// RequestTimes::tokenised.
asio::awaitable<void> tokenise(Service& service, Exchange& exchange, std::function<void()> work);

// Reads the API keys again, on SIGHUP. On failure logs the reason and keeps the old keys.
void reload_keys(Service& service);

struct ChosenModel {
  std::string id;                      // its name in answers
  std::optional<AdapterId> adapter{};  // not set: the model without adapters
};
// Returns the model of this name: one of the model's names, an adapter's name, or both as "MODEL:ADAPTER".
// The tag ":latest" of Ollama's API may follow. Throws HttpError (404) for a model that is not served.
ChosenModel find_model(const Service& service, const std::string& name);
// Like find_model() above, for params.model. Returns the model without adapters if no name is given.
ChosenModel find_model(const Service& service, const GenerationParams& params);
// Returns the name of the model that the chosen adapter changes; empty without an adapter.
std::string parent_of(const Service& service, const ChosenModel& model);

// Throws HttpError (404) for a model that is not served.
void check_model(const Service& service, const GenerationParams& params);
void check_model(const Service& service, const std::string& name);

// Lowers a larger max_tokens to the server's maximum and adds the field to params.ignored; sets an absent
// max_tokens to the maximum. Sets the interval between the events of a stream.
void apply_options(const Service& service, GenerationParams& params);

// Reports fields without effect in the header X-Nibble-Ignored and the log; with --strict throws HttpError.
void note_ignored(const Service& service, Exchange& exchange, const IgnoredFields& ignored);

ReplyHead new_reply(const Service& service, std::string_view id_prefix, const GenerationParams& params);

asio::awaitable<void> reply_json(Exchange& exchange, int status, const Json& json);

// Receives the engine's events for an endpoint. on_token() and on_end() return the text that a stream sends.
class ChoiceListener {
 public:
  virtual ~ChoiceListener() = default;
  // The functions with a string as result return the text that a stream sends. on_queued() is called when the
  // engine has accepted the request.
  virtual std::string on_queued() { return {}; }
  virtual std::string on_prompt(size_t /*choice*/, const PromptEvent& /*event*/) { return {}; }
  virtual std::string on_token(size_t choice, TokenEvent& event) = 0;
  // Called after each token; true ends the choice. Chats search stop strings here: these count only in the
  // content of messages, and the engine does not parse messages.
  virtual bool has_enough(size_t choice) const = 0;
  // `text`: the text that the engine held back because it might have become a stop string.
  virtual std::string on_end(size_t choice, FinishReason reason, const std::string& text) = 0;
  // Returns what a stream sends after a long silence.
  virtual std::string on_silence() { return std::string(kSseKeepAlive); }
};

struct TokenCounts {
  int num_output{0};  // output tokens of all choices
  int num_cached{0};  // prompt tokens found in the prefix cache; counted once per prompt
};

// Generates `params.num_choices` answers per prompt. Returns nullopt if the client has disconnected; all
// answers are then cancelled. After ServerOptions::request_timeout, answers end as if they had reached
// max_tokens. Throws HttpError if no answer has a token by then (504), if the engine fails, or if the server
// stops.
asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<GenerationRequest> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener);

// Ends a stream: sends the chunk `usage` if requested, then [DONE].
asio::awaitable<void> end_stream(Exchange& exchange, const GenerationParams& params, const Json& usage);

}  // namespace nibble::server
