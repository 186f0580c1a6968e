// Answers a chat by asking a server with OpenAI's API (chat completions).
#pragma once

#include <string>

#include "cli/bench_serve/endpoint.h"
#include "cli/chat/answerer.h"
#include "core/text/json.h"

namespace nibble::cli {

class RemoteAnswerer final : public Answerer {
 public:
  // `model`: the model to request; empty: the first one that the server lists. Throws InputError if the
  // server does not answer.
  RemoteAnswerer(const Endpoint& endpoint, const std::string& model);

  // On ctrl-C closes the connection, which ends the request at the server.
  ChatAnswer answer(const harmony::Chat& chat, const Settings& settings, const Listener& listener) override;

  const std::string& model() const { return model_; }

 private:
  Endpoint endpoint_;
  std::string model_;
};

// Returns the body of a request. Sampling settings with their default values are left out: the server's
// defaults hold. Throws InputError for a setting that the API cannot carry.
Json chat_request(const std::string& model, const harmony::Chat& chat, const Settings& settings);

}  // namespace nibble::cli
