// Functions by which a launch passes on the chosen experts of few tokens through a mailbox (RoutingMailbox):
// to its other CTAs, and to the next launch, which may already run.
#pragma once

#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/choice.cuh"

namespace nibble::cuda {

// Stores `bits` in a mailbox word, under the tag (of step and layer) for which readers poll.
__device__ inline void publish(uint64_t* to, uint32_t tag, uint32_t bits) {
  store_relaxed(to, uint64_t{tag} << 32 | bits);
}
// Polls a word until it carries the tag, and returns its data.
__device__ inline uint32_t wait_for(const uint64_t* from, uint32_t tag) {
  uint64_t word = load_relaxed(from);
  while (word >> 32 != tag) word = load_relaxed(from);
  return static_cast<uint32_t>(word);
}
__device__ inline uint32_t tag_of(const RoutingMailbox& routing) {
  return load_now(routing.step) * routing.num_layers + routing.layer;
}

struct TokenRouting {
  int num_experts, experts_per_token;
  const IndexRange& own;  // the experts whose weights this rank holds
  const RoutingMailbox& mailbox;
  uint32_t tag;
  bool publishes;  // whether to write the choice to the mailbox, for experts_down()
};
// Chooses a token's experts by logit_of(expert), and writes them to `chosen`, [T, K]. A whole warp must call
// it.
template <typename LogitOf>
__device__ void choose_experts(const TokenRouting& routing, int token, const LogitOf& logit_of, int* chosen) {
  const int experts_per_token = routing.experts_per_token;
  const int lane = static_cast<int>(threadIdx.x) % 32, first = token * experts_per_token;
  Ranking ranking(routing.num_experts, logit_of);
  float logit = -INFINITY;
  int expert = 0;  // the token's chosen expert with number `lane`
#pragma unroll 1   // keeps the code short: a launch must first fetch its instructions
  for (int k = 0; k < experts_per_token; ++k) {
    const Ranking::Place place = ranking.next();
    if (lane == k) logit = place.logit, expert = place.expert;
  }
  if (lane < experts_per_token) chosen[first + lane] = expert;
  if (!routing.publishes) return;
  const float weight = weight_of_place(logit);
  if (lane >= experts_per_token) return;
  routing.mailbox.weights[first + lane] = routing.own.has(expert) ? weight : 0;
  publish(routing.mailbox.experts + first + lane, routing.tag, static_cast<uint32_t>(expert));
}

}  // namespace nibble::cuda
