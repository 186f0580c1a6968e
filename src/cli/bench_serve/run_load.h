// Sends the requests of a load and times their answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_serve/conversation.h"
#include "cli/bench_serve/endpoint.h"
#include "cli/bench_serve/latency.h"
#include "cli/bench_serve/workload.h"

namespace nibble::cli {

std::string path_of(BenchApi api);  // relative to the endpoint's base: "/completions"

struct Arrivals {
  // Number of clients. Each client waits for its answer before it sends the next request. nullopt:
  // conversations start at `times`.
  std::optional<int> num_clients{};
  std::vector<double> times{};  // seconds from the start, one per conversation
};

struct RequestLoad {
  BenchApi api;
  int count{0};  // number of conversations
  Arrivals arrivals{};
  double min_seconds{0};  // until this time has passed, clients begin conversations even beyond `count`
  double timeout_seconds{600};
  std::function<BenchConversation(int)>
      conversation_of{};  // called with index i right before conversation i begins
};

struct LoadAnswers {
  std::vector<TimedAnswer> answers;
  int num_conversations{0};
};
// Sends the requests and waits for all answers. A failed request ends its conversation with an error.
LoadAnswers run_load(const Endpoint& endpoint, const RequestLoad& load);

}  // namespace nibble::cli
