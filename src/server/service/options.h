#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "core/tokens/token.h"
#include "server/api/request_defaults.h"
#include "server/http/limits.h"
#include "server/service/api_keys.h"
#include "text/tokenizer.h"

namespace nibble::server {

// The backend, its kernels and its memory, for /status. Set by the command that starts the server.
struct SetupFacts {
  struct Memory {
    std::string what;
    size_t bytes;
  };
  std::string backend;           // "cpu"
  std::string device;            // description in one line
  size_t num_devices{1};         // GPUs (on CPUs: machines) that share the model
  Json kernels = Json::array();  // of objects, with the kernel of each operation and the reason
  std::vector<Memory> memory;    // memory plan of the fullest device, by its parts
  size_t memory_budget{0};       // bytes of all parts, plus what was still free at the start
};

struct ServedModel {
  const Tokenizer* tokenizer{nullptr};
  int vocab{0};                      // size of the vocabulary: token ids are smaller
  int max_context{0};                // tokens of a prompt and its answer together
  std::vector<TokenId> stop_tokens;  // any of these ends an answer
  int64_t created{0};                // seconds since 1970
  size_t num_host_bytes{0};          // bytes of the weights in host memory
  SetupFacts setup{};
};

struct ServedAdapter {  // an adapter that requests choose as their model
  std::string name;
  std::string parent;  // the model that it adapts
};

struct ServerOptions {
  std::string model_id;                   // the model's name in answers
  std::vector<std::string> aliases{};     // other names that clients may use
  std::vector<ServedAdapter> adapters{};  // AdapterId is the index
  HttpAddress address{};
  ApiKeys api_keys{};                       // empty: no key is needed
  std::function<ApiKeys()> reload_keys{};   // reads the keys again on SIGHUP; throws InputError
  bool isolate_keys{false};                 // share no cached data between keys of different owners
  std::vector<std::string> cors_origins{};  // pages that may call this server from a browser; "*": all
  // names accepted in Host headers besides the server's own; "*": all
  std::vector<std::string> allowed_hosts{};
  bool has_page{true};                     // GET / shows the page
  std::vector<std::string> mcp_origins{};  // MCP servers that the page may call: content_policy.h
  bool has_open_metrics{false};            // /metrics needs no key
  RequestDefaults defaults{};              // values of fields that a request leaves out
  std::optional<std::string> date{};       // date in the prompt; absent: today's
  bool is_strict{false};                   // refuse requests with ignored fields
  bool log_bodies{false};                  // log request bodies, which contain users' text
  std::string version{};
  HttpLimits limits{};
  int max_output_tokens{0};  // limit on the tokens of an answer; 0: only the context limits it
  int stream_interval{1};    // minimum number of tokens between two events of a stream (api/stream_pace.h)
  std::chrono::milliseconds request_timeout{0};  // limit from queueing to the end of an answer; 0: no limit
  size_t max_response_bytes{64 << 20};           // memory for stored responses (previous_response_id)
  // Limits on kept answers (requests with "resumable", and streamed background responses): memory for events,
  // and time after the answer's end or after its last reader has left. 0: no answer is kept.
  size_t max_kept_bytes{64 << 20};
  std::chrono::milliseconds keep_time{300'000};
  // A stream sends a comment after this time without a token, because proxies cut silent connections.
  std::chrono::milliseconds keep_alive{15'000};
  // Time without a finished step after which the engine counts as stalled. nullopt: estimated
  // (service/condition.h).
  std::optional<std::chrono::seconds> step_timeout{};
  // The clock for request_timeout. Tests replace it.
  std::function<std::chrono::steady_clock::time_point()> now{&std::chrono::steady_clock::now};
  std::chrono::seconds shutdown_delay{0};  // time after the first signal in which requests are still accepted
  std::chrono::seconds shutdown_timeout{30};  // time after shutdown_delay for running requests to finish
  // Time for the engine to cancel answers after shutdown_timeout. If the engine hangs, the server takes this
  // time once more to send errors.
  std::chrono::milliseconds last_words{2'000};
  // Limit on the time to destroy engine and backend at the end. A hanging GPU would delay the end forever.
  std::chrono::milliseconds teardown{4'000};
};

}  // namespace nibble::server
