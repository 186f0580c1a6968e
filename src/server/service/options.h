// The setup of a server: the model that it serves and its options.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/token.h"
#include "server/http/limits.h"
#include "server/service/setup_facts.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct ServedModel {
  const Tokenizer* tokenizer{nullptr};
  int vocab{0};                      // token ids are below this
  int max_context{0};                // tokens of one prompt and its answer together
  std::vector<TokenId> stop_tokens;  // any of these ends an answer
  int64_t created{0};                // seconds since 1970
  SetupFacts setup{};
};

struct ServerOptions {
  std::string model_id;                // the name of the model in answers
  std::vector<std::string> aliases{};  // others by which clients may ask for it
  HttpAddress address{};
  std::vector<std::string> api_keys{};      // empty: no key is needed
  std::vector<std::string> cors_origins{};  // pages that may call from a browser; "*": all
  std::vector<std::string>
      allowed_hosts{};                // names by which the server may be asked, beside its own; "*": all
  bool has_page{true};                // GET / shows the page
  bool has_open_metrics{false};       // /metrics needs no key
  std::optional<std::string> date{};  // that the model is told; none: today's
  bool is_strict{false};              // refuse requests with fields that are ignored
  bool log_bodies{false};             // log the bodies of requests, which hold what people ask
  std::string version{};
  HttpLimits limits{};
  size_t max_response_bytes{64 << 20};  // memory for conversations kept for previous_response_id
  // A stream without a token sends a comment this often, because proxies cut silent connections.
  std::chrono::milliseconds keep_alive{15'000};
  std::chrono::seconds shutdown_delay{0};     // after the first signal, in which requests are still taken
  std::chrono::seconds shutdown_timeout{30};  // then, for running requests
};

}  // namespace nibble::server
