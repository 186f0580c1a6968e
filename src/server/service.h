// What the routes share: the model that is served, the way to the engine, and the server's state. Of the I/O thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
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

struct Generated {
  FinishReason reason{};
  int num_output_tokens{0};
  std::string text;  // what the engine's stop rules had held back
};
struct Heard {
  std::string events;     // what a stream is told of this token; may be empty
  bool is_enough{false};  // the answer ends here, whatever the engine says
};

// Runs a request: each token to `on_token`, what that says to the client where it streams. Nothing: the client has gone,
// and the request is cancelled. Throws ApiError where the engine fails or the server stops.
asio::awaitable<std::optional<Generated>> generate(Service& service, Exchange& exchange, Request request,
                                                   bool is_stream,
                                                   std::function<Heard(TokenEvent&)> on_token);

}  // namespace nibble::server
