// What the routes share: the model that is served, the way to the engine, and the server's state. Of the I/O thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api_reply.h"
#include "server/api_request.h"
#include "server/engine_gate.h"
#include "server/http.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct ServedModel {
  std::string id;  // what clients call it
  const Tokenizer* tokenizer{nullptr};
  int vocab{0};                      // ids below it exist
  int max_context{0};                // tokens of prompt and answer together
  std::vector<TokenId> stop_tokens;  // where the model ends an answer
  int64_t created{0};                // seconds since 1970
};

enum class ServiceState { kLoading, kReady, kDraining };

struct Service {
  std::vector<std::string> api_keys;  // none: everybody is let in
  std::string version;
  std::chrono::milliseconds keep_alive;
  ServiceState state{ServiceState::kLoading};
  // From kReady on:
  std::optional<ServedModel> model{};
  std::unique_ptr<EngineGate> gate{};
};

// Throws ApiError (404) if the client asks for another model than the one that is served.
void check_model(const Service& service, const GenerationParams& params);

// For the engine: throws ApiError where the prompt is empty, too long, or not of this vocabulary.
Request make_request(const Service& service, const GenerationParams& params, std::vector<TokenId> prompt);

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

}  // namespace nibble::server
