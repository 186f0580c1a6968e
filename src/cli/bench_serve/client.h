// The client of bench serve: concurrent streamed requests to an OpenAI endpoint, on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/workload.h"
#include "core/json.h"

namespace nibble::cli {

struct Endpoint {
  std::string host, port;
  std::string base;     // prefix of all paths: "/v1"
  std::string api_key;  // empty: send none

  std::string url() const;  // "http://127.0.0.1:8080/v1"
};
// Accepts "http://127.0.0.1:8080" with or without the "/v1" that official clients require. Throws InputError.
Endpoint read_endpoint(const std::string& url);

std::string path_of(BenchApi api);  // relative to `base`: "/completions"

// The first model that the endpoint lists. Throws InputError if the request fails or the list is empty.
std::string first_model(const Endpoint& endpoint, double timeout_seconds);

// Closed loop: each client sends its next request after its answer. Or open loop: requests are sent at given
// times, whatever is still running.
struct Arrivals {
  int num_clients{0};           // 0: use `times`
  std::vector<double> times{};  // seconds from the start, one per request
};

struct RequestLoad {
  BenchApi api;
  int count{0};
  Arrivals arrivals{};
  std::function<nlohmann::ordered_json(int)> body_of{};  // called with i right before request i is sent
};
// Waits for all answers. A failed request returns an answer with an error.
std::vector<TimedAnswer> run_requests(const Endpoint& endpoint, const RequestLoad& load,
                                      double timeout_seconds);

struct StreamEvent {
  bool has_text{false};  // includes reasoning and tool calls
  bool is_done{false};   // "[DONE]"
  std::optional<int64_t> num_prompt_tokens{}, num_output_tokens{}, num_cached_tokens{};
  std::string error{};  // message of an error event; empty: no error
};
StreamEvent read_event(const std::string& data);

}  // namespace nibble::cli
