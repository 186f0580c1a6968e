// Predicts the throughput of server replicas from the time of their steps and the content of their prefix
// caches, for `nibble predict --replicas`.
#pragma once

#include <functional>
#include <optional>

#include "backend/backend.h"
#include "backend/prediction.h"
#include "model/config.h"

namespace nibble::cli {

// The request that every client repeats. The first `prefix_tokens` of the prompt are one of `num_prefixes`
// prefixes, all equally likely.
struct Request {
  int prompt_tokens{0}, answer_tokens{0};
  int prefix_tokens{0}, num_prefixes{1};

  int num_tokens() const { return prompt_tokens + answer_tokens; }
};

// KV cache pages of a replica that are not occupied by running sequences.
struct CacheRoom {
  double full_pages{0}, sliding_pages{0};
  int window{0};  // window of the sliding layers
};
// `options` are those of one replica.
CacheRoom room_beside(const BackendOptions& options, const Config& config, const Request& request,
                      int num_running);

// Returns the share of requests whose prefix is still in the cache of a replica that gets requests with
// `num_prefixes` different prefixes at random, in steady state. The least recently used page is evicted
// first, so a prefix is found if it was requested among the last T requests (Che's approximation). T is the
// number of requests after which the pages of the requested prefixes and the other pages of those requests
// fill the room; it is computed for full and for sliding pages. To continue after a prefix takes all of its
// full pages, and the sliding pages in the window at its end. The result is within 15 points of what the
// scheduler finds (tests/cli/predict/serving_test.cpp).
double found_share(const CacheRoom& room, const Request& request, double num_prefixes);

using StepSeconds = std::function<double(const PredictedStep&)>;

// One wave: `num_running` requests prefill together, then decode together. The prefill step yields the first
// token of each answer.
struct ServingRound {
  double prompt_seconds{0}, answer_seconds{0};
  double seconds() const { return prompt_seconds + answer_seconds; }
};
// `found`: share of requests whose prefix is cached and not computed again.
ServingRound round_of(const Request& request, int num_running, double found, int max_batch_tokens,
                      const StepSeconds& step_seconds);

// Replicas of a server that a gateway distributes requests to; each runs `num_running` requests at a time.
// `by_prefix`: the gateway sends requests with the same prefix to the same replica; otherwise it
// distributes all requests evenly.
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
