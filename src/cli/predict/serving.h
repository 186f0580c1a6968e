// Throughput of server replicas, from step times and prefix caches, for `nibble predict --replicas`.
#pragma once

#include <functional>
#include <optional>

#include "backend/backend.h"
#include "backend/prediction.h"
#include "model/config.h"

namespace nibble::cli {

// A client's request. Its first `prefix_tokens` tokens are one of `num_prefixes` equally likely prefixes.
struct Request {
  int prompt_tokens{0}, answer_tokens{0};
  int prefix_tokens{0}, num_prefixes{1};

  int num_tokens() const { return prompt_tokens + answer_tokens; }
};

// KV cache pages of a replica that running sequences do not use; they may hold cached texts.
// `unused_sliding`: the sliding pages in the pool's list of unused ones (kv/page_pool.h). `pages`: all
// others, including the sliding pages of the windows at the ends of texts.
struct CacheRoom {
  double pages{0}, unused_sliding{0};
  int window{0};       // window of the sliding layers
  int num_running{0};  // running requests; half of them are assumed to have computed their prefix
};
// Returns the pages of one replica that `num_running` running requests leave for cached texts. `options`: the
// options of one replica.
CacheRoom room_beside(const BackendOptions& options, const Config& config, const Request& request,
                      int num_running);

// Predicts the share of requests that find their prefix in a replica's cache, in the steady state of random
// requests with `num_prefixes` prefixes (Che's approximation). After a hit, a prefix is found again if one of
// the last T requests had it; T is the number of requests whose pages fill `room.pages`. After a miss, one of
// the last U requests must have had it; U < T is the number of requests whose sliding pages fill
// `room.unused_sliding`. The result is within 15 percentage points of the scheduler's
// (tests/cli/predict/serving_test.cpp).
double found_share(const CacheRoom& room, const Request& request, double num_prefixes);

using StepSeconds = std::function<double(const PredictedStep&)>;

// One round: `num_running` requests prefill, which samples their first tokens, then decode together.
struct ServingRound {
  double prompt_seconds{0}, answer_seconds{0};
  double seconds() const { return prompt_seconds + answer_seconds; }
};
// `found`: share of requests whose prefix is in the cache.
ServingRound round_of(const Request& request, int num_running, double found, int max_batch_tokens,
                      const StepSeconds& step_seconds);

// Replicas of a server, each with `num_running` running requests. `by_prefix`: the gateway sends requests
// with equal prefixes to the same replica. Otherwise it distributes requests evenly.
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
