// What replicas of a server answer, from how long their steps take and what their caches hold: arithmetic of `nibble predict --replicas`.
#pragma once

#include <functional>
#include <optional>

#include "backend/backend.h"
#include "backend/prediction.h"
#include "model/config.h"

namespace nibble::cli {

// What every client asks for, again and again. `prefix_tokens` of the prompt are one of `num_prefixes` beginnings, each as likely as another.
struct Request {
  int prompt_tokens{0}, answer_tokens{0};
  int prefix_tokens{0}, num_prefixes{1};

  int num_tokens() const { return prompt_tokens + answer_tokens; }
};

// Pages of a replica that those sequences leave which run.
struct CacheRoom {
  double full_pages{0}, sliding_pages{0};
  int window{0};  // of the sliding layers
};
// `options`: the replica's.
CacheRoom room_beside(const BackendOptions& options, const Config& config, const Request& request,
                      int num_running);

// The share of requests whose beginning is still in the cache of a replica that gets so many different ones, at random, once it has run
// for long. A page that was used longest ago is taken first, so a beginning is found if it was asked for among the last T requests (Che's
// approximation): of each kind of page, those of the beginnings that were, and what T requests have left behind of their own, fill the room.
// To go on behind a beginning takes all of its full pages, and the sliding ones that its end reaches. Within 15 points of what the scheduler
// finds (tests/cli/predict/serving_test.cpp).
double found_share(const CacheRoom& room, const Request& request, double num_prefixes);

using StepSeconds = std::function<double(const PredictedStep&)>;

// A round of requests of as many sequences: all prompts run, then all answers, of which the prompt's step gives the first token.
struct ServingRound {
  double prompt_seconds{0}, answer_seconds{0};
  double seconds() const { return prompt_seconds + answer_seconds; }
};
// `found`: the share of requests whose beginning need not run.
ServingRound round_of(const Request& request, int num_running, double found, int max_batch_tokens,
                      const StepSeconds& step_seconds);

// Replicas behind a gateway, each with so many requests at once. `by_prefix`: the gateway sends what begins alike to the same replica; else
// each gets a share of all.
struct PredictedReplicas {
  int num_replicas{1}, num_running{1};
  bool by_prefix{false};
  std::optional<double>
      found{};  // the share of requests whose beginning was cached; not set: they have none in common
  ServingRound round;

  double requests_per_second() const { return num_replicas * num_running / round.seconds(); }
};
PredictedReplicas replicas_of(const BackendOptions& options, const Config& config, const Request& request,
                              int num_replicas, int num_running, bool by_prefix,
                              const StepSeconds& step_seconds);

}  // namespace nibble::cli
