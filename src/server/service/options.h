// The setup of a server: the model that it serves and its options.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/token.h"
#include "server/api/request_defaults.h"
#include "server/http/limits.h"
#include "server/service/api_keys.h"
#include "server/service/setup_facts.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct ServedModel {
  const Tokenizer* tokenizer{nullptr};
  int vocab{0};                      // token ids are below this
  int max_context{0};                // tokens of one prompt and its answer together
  std::vector<TokenId> stop_tokens;  // any of these ends an answer
  int64_t created{0};                // seconds since 1970
  size_t num_host_bytes{0};          // of its weights, in the memory of the host
  SetupFacts setup{};
};

struct ServerOptions {
  std::string model_id;                // the name of the model in answers
  std::vector<std::string> aliases{};  // others by which clients may ask for it
  HttpAddress address{};
  ApiKeys api_keys{};                       // empty: no key is needed
  std::function<ApiKeys()> reload_keys{};   // reads them again on SIGHUP; throws InputError
  bool isolate_keys{false};                 // the owner of the key is part of every cache_salt
  std::vector<std::string> cors_origins{};  // pages that may call from a browser; "*": all
  // Names by which the server may be asked, besides its own; "*": all.
  std::vector<std::string> allowed_hosts{};
  bool has_page{true};                // GET / shows the page
  bool has_open_metrics{false};       // /metrics needs no key
  RequestDefaults defaults{};         // for what a request leaves out
  std::optional<std::string> date{};  // that the model is told; none: today's
  bool is_strict{false};              // refuse requests with fields that are ignored
  bool log_bodies{false};             // log the bodies of requests, which hold what people ask
  std::string version{};
  HttpLimits limits{};
  int max_output_tokens{0};  // that an answer may have; 0: as many as there is room for
  // From when a request joins the queue to the end of its answer; 0: no limit.
  std::chrono::milliseconds request_timeout{0};
  size_t max_response_bytes{64 << 20};  // memory for conversations kept for previous_response_id
  // A stream without a token sends a comment this often, because proxies cut silent connections.
  std::chrono::milliseconds keep_alive{15'000};
  // The engine stands still if no step ends for this long while requests wait. None: worked out (service/stall.h).
  std::optional<std::chrono::seconds> step_timeout{};
  // The clock of request_timeout. Tests have their own.
  std::function<std::chrono::steady_clock::time_point()> now{&std::chrono::steady_clock::now};
  std::chrono::seconds shutdown_delay{0};     // after the first signal, in which requests are still taken
  std::chrono::seconds shutdown_timeout{30};  // then, for running requests
  // Then the engine gets this time to cancel them, and the same again to send their errors if it does not.
  std::chrono::milliseconds last_words{2'000};
  // At last, to destroy engine and backend. A GPU that hangs would take forever.
  std::chrono::milliseconds teardown{4'000};
};

}  // namespace nibble::server
