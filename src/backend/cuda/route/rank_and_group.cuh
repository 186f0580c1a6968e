// Routes several tokens: chooses each token's experts, and groups the pairs (a token and one of its experts)
// by their expert.
#pragma once

#include <cub/warp/warp_scan.cuh>

#include "backend/cuda/layout/activations.h"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/choice.cuh"

namespace nibble::cuda {

// Chooses a token's experts by their logits, stores them in `chosen` and their weights in
// args.groups.weight. A whole warp must call it.
__device__ inline void rank_token(const RouteArgs& args, int token, int* chosen) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_pair = token * args.experts_per_token;
  const float* logits = args.logits + size_t{1} * token * args.weights.rows;
  Ranking ranking(args.weights.rows, [&](int expert) { return __ldcg(logits + expert); });
  float logit = -INFINITY;
  bool is_here = false;  // whether this rank holds the token's chosen expert number `lane`
  for (int k = 0; k < args.experts_per_token; ++k) {
    const Ranking::Place place = ranking.next();
    const int expert = number_of(args.own, place.expert);
    if (lane == k) logit = place.logit, is_here = expert >= 0;
    if (lane == 0) chosen[k] = expert;
  }
  const float weight = weight_of_place(logit);
  if (lane < args.experts_per_token) args.groups.weight[first_pair + lane] = is_here ? weight : 0;
}

// Returns the counters of group_pairs(), one per expert, set to zero, in dynamic shared memory. The CTA must
// synchronize before it uses the counters.
template <int threads>
__device__ int* cleared_counts(const RouteArgs& args) {
  NIBBLE_DYNAMIC_SHARED(int, counts);
  for (int e = static_cast<int>(threadIdx.x); e < args.weights.rows; e += threads) counts[e] = 0;
  return counts;
}

// Returns i / size. Few experts have several groups, so i < size is common and saves a slow division.
__device__ inline int groups_before(int i, int size) { return i < size ? 0 : i / size; }

// Groups the step's pairs by expert. All threads of one CTA must call it. expert_of(pair) returns the pair's
// expert, or a negative number if another rank holds the expert. The order of an expert's pairs may vary; no
// result depends on it. Thread n handles pair n, then every `threads`-th pair after it. It keeps pair n's
// expert and rank in registers, and need not load them again. If there are at most `threads` pairs, no thread
// has another pair.
template <int threads, typename ExpertOf>
__device__ void group_pairs(const RouteArgs& args, int* counts, const ExpertOf& expert_of) {
  const int num_experts = args.own.count, num_pairs = args.num_tokens * args.experts_per_token;
  const int size = args.groups.size, own = static_cast<int>(threadIdx.x);
  int own_expert = -1, own_rank = 0;
  if (own < num_pairs) {
    own_expert = expert_of(own);
    if (own_expert >= 0) own_rank = atomicAdd(&counts[own_expert], 1);
  }
  // Calls f(pair, expert, load(pair)) for the thread's other pairs of this rank's experts. Loads eight pairs
  // at a time: the compiler cannot move a load before a store of f(), because the load might alias the store.
  const auto visit_others = [&](const auto& load, const auto& f) {
    constexpr int kAhead{8};
    for (int first = own + threads; first < num_pairs; first += kAhead * threads) {
      int experts[kAhead], loaded[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int pair = first + i * threads;
        experts[i] = pair < num_pairs ? expert_of(pair) : -1;
        loaded[i] = pair < num_pairs ? load(pair) : 0;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (experts[i] >= 0) f(first + i * threads, experts[i], loaded[i]);
    }
  };
  visit_others([](int) { return 0; },
               [&](int pair, int expert, int) { args.rank[pair] = atomicAdd(&counts[expert], 1); });
  __syncthreads();
  // Each lane handles `run` consecutive experts. A prefix sum over lanes gives the lane's first group.
  if (own < 32) {
    const int run = (num_experts + 31) / 32, first = own * run, last = min(first + run, num_experts);
    int num_groups = 0, num_rows = 0;  // of the lane's experts: number of groups, and of rows in an image
    for (int e = first; e < last; ++e) {
      num_groups += (counts[e] > 0) + groups_before(counts[e] - 1, size);
      num_rows += whole_eights(counts[e]);
    }
    int before = 0, count = 0, row = 0;
    cub::WarpScan<int>::TempStorage nothing;  // empty: WarpScan uses shuffles instead of shared memory
    cub::WarpScan<int>(nothing).ExclusiveSum(num_groups, before, count);
    cub::WarpScan<int>(nothing).ExclusiveSum(num_rows, row);
    if (own == 0) *args.groups.count = count;
    for (int e = first; e < last; ++e) {
      const int pairs = counts[e];
      counts[e] = before;  // from here on, the index of the expert's first group
      for (int rest = pairs; rest > 0; rest -= size, ++before) {
        args.groups.expert[before] = e;
        args.groups.num_pairs[before] = min(rest, size);
        if (args.groups.image_row) args.groups.image_row[before] = row;
        row += whole_eights(min(rest, size));
      }
    }
  }
  __syncthreads();
  const auto put = [&](int pair, int expert, int rank) {
    const int group = groups_before(rank, size);
    args.groups.pairs[(counts[expert] + group) * size + rank - group * size] = pair;
  };
  if (own_expert >= 0) put(own, own_expert, own_rank);
  visit_others([&](int pair) { return args.rank[pair]; }, put);
}

}  // namespace nibble::cuda
