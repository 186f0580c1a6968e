// The choice of experts for few tokens, and the mailboxes that pass it on (RoutingMailbox): to the other CTAs
// of a launch, and to the next launch while this one still runs.
#pragma once

#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/choice.cuh"

namespace nibble::cuda {

__device__ inline void publish(uint64_t* to, uint32_t tag, uint32_t bits) {
  store_relaxed(to, uint64_t{tag} << 32 | bits);
}
__device__ inline uint32_t wait_for(const uint64_t* from, uint32_t tag) {
  uint64_t word = load_relaxed(from);
  while (word >> 32 != tag) word = load_relaxed(from);
  return static_cast<uint32_t>(word);
}
__device__ inline uint32_t tag_of(const RoutingMailbox& routing) {
  return load_now(routing.step) * routing.num_layers + routing.layer;
}

// Called by a warp: chooses a token's experts by logit_of(expert), and writes them to `chosen`. If
// `passes_on` is set, it also publishes the routing for experts_down.
template <typename LogitOf>
__device__ void rank_for_cta(int num_experts, int experts_per_token, const IndexRange& own, int token,
                             const LogitOf& logit_of, const RoutingMailbox& routing, uint32_t tag,
                             bool passes_on, int* chosen) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first = token * experts_per_token;
  Ranking ranking(num_experts, logit_of);
  float logit = -INFINITY;
  int expert = 0;  // the expert of slot number `lane`
#pragma unroll 1   // not unrolled, to reuse instructions: each launch has to fetch them first
  for (int k = 0; k < experts_per_token; ++k) {
    const Ranking::Place place = ranking.next();
    if (lane == k) logit = place.logit, expert = place.expert;
  }
  if (lane < experts_per_token) chosen[first + lane] = expert;
  if (!passes_on) return;
  const float weight = weight_of_place(logit);
  if (lane >= experts_per_token) return;
  routing.weights[first + lane] = own.has(expert) ? weight : 0;
  publish(routing.experts + first + lane, tag, static_cast<uint32_t>(expert));
}

}  // namespace nibble::cuda
