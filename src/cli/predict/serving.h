// Throughput of server replicas from step times and prefix caches, for `nibble predict --replicas`.
#pragma once

#include <functional>
#include <optional>

#include "backend/backend.h"
#include "backend/prediction.h"
#include "model/config.h"

namespace nibble::cli {

// Every client's request. Its first `prefix_tokens` are one of `num_prefixes` equally likely prefixes.
struct Request {
  int prompt_tokens{0}, answer_tokens{0};
  int prefix_tokens{0}, num_prefixes{1};

  int num_tokens() const { return prompt_tokens + answer_tokens; }
};

struct CacheRoom {  // KV cache pages of a replica besides those of running sequences
  double full_pages{0}, sliding_pages{0};
  int window{0};  // window of the sliding layers
};
// `options` must be those of one replica.
CacheRoom room_beside(const BackendOptions& options, const Config& config, const Request& request,
                      int num_running);

// Share of requests whose prefix is still cached, in steady state, on a replica with random requests of
// `num_prefixes` prefixes. Least recently used pages are evicted first, so a prefix is found if it was among
// the last T requests (Che's approximation). T: the number of requests whose prefixes and other pages fill
// the room, for full and for sliding pages: a hit needs all full pages of the prefix and the sliding pages in
// the window at its end. Within 15 points of the scheduler's share (tests/cli/predict/serving_test.cpp).
double found_share(const CacheRoom& room, const Request& request, double num_prefixes);

using StepSeconds = std::function<double(const PredictedStep&)>;

// One wave: `num_running` requests prefill together (which yields their first tokens), then decode together.
struct ServingRound {
  double prompt_seconds{0}, answer_seconds{0};
  double seconds() const { return prompt_seconds + answer_seconds; }
};
// `found`: share of requests whose prefix is cached.
ServingRound round_of(const Request& request, int num_running, double found, int max_batch_tokens,
                      const StepSeconds& step_seconds);

// Replicas of a server, each running `num_running` requests. `by_prefix`: the gateway sends requests with
// equal prefixes to the same replica; otherwise it distributes requests evenly.
struct Replicas {
  int num_replicas{1}, num_running{1};
  bool by_prefix{false};
};
struct PredictedReplicas : Replicas {
  std::optional<double> found{};  // share of requests whose prefix was cached; nullopt: no shared prefixes
  ServingRound round;

  double requests_per_second() const { return num_replicas * num_running / round.seconds(); }
};
PredictedReplicas replicas_of(const BackendOptions& options, const Config& config, const Request& request,
                              const Replicas& replicas, const StepSeconds& step_seconds);

}  // namespace nibble::cli
