// The client of bench serve: an OpenAI endpoint, and streamed requests to it, many at once on one thread.
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
  std::string base;     // of the paths: "/v1"
  std::string api_key;  // empty: none is sent

  std::string url() const;  // "http://127.0.0.1:8080/v1"
};
// "http://127.0.0.1:8080", with or without the "/v1" that official clients want to have named. Throws InputError.
Endpoint read_endpoint(const std::string& url);

std::string path_of(BenchApi api);  // below the base: "/completions"

// The first model that the endpoint has. Throws InputError where it can't be asked.
std::string first_model(const Endpoint& endpoint, double timeout_seconds);

// The arrival of requests: from clients that each wait for their answer, or at given times, however many are still running.
struct Arrivals {
  int num_clients{0};           // 0: at `times`
  std::vector<double> times{};  // in seconds
};

// Sends `count` requests and waits for all answers. `body_of(i)` is called just before request i is sent. A request that fails gives
// an answer with an error.
std::vector<TimedAnswer> run_requests(const Endpoint& endpoint, BenchApi api, int count,
                                      const Arrivals& arrivals, double timeout_seconds,
                                      const std::function<nlohmann::ordered_json(int)>& body_of);

// One event of a streamed answer.
struct StreamEvent {
  bool has_text{false};  // also reasoning, and arguments of calls
  bool is_done{false};   // "[DONE]"
  std::optional<int64_t> num_prompt_tokens{}, num_output_tokens{}, num_cached_tokens{};
  std::string error{};  // its message
};
StreamEvent read_event(const std::string& data);

}  // namespace nibble::cli
