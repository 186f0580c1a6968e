// The routing of several tokens: each token's experts, and the groups of pairs (token and slot) that share an
// expert's weights.
#pragma once

#include <cub/warp/warp_scan.cuh>

#include "backend/cuda/choice.cuh"
#include "backend/cuda/decode/stream.cuh"
#include "backend/cuda/layout/image.h"
#include "backend/cuda/ptx/registers.cuh"

namespace nibble::cuda {

// One warp chooses a token's experts and computes their weights. logit_of(expert) is called by the lane that ranks the expert (Ranking).
template <typename LogitOf>
__device__ void rank_token(const RouteArgs& args, int token, const LogitOf& logit_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_pair = token * args.experts_per_token;
  Ranking ranking(args.weights.rows, logit_of);
  float logit = -INFINITY;
  bool is_here = false;
  for (int k = 0; k < args.experts_per_token; ++k) {
    const Ranking::Place place = ranking.next();
    const int expert = args.own.has(place.expert) ? place.expert - args.own.first : -1;
    if (lane == k) logit = place.logit;
    if (lane == k) is_here = expert >= 0;
    if (lane == 0) args.chosen[first_pair + k] = expert;
  }
  const float weight = weight_of_place(logit);
  if (lane < args.experts_per_token) args.groups.weight[first_pair + lane] = is_here ? weight : 0;
}

// The same by the logits that are in memory.
__device__ inline void rank_token(const RouteArgs& args, int token) {
  const float* logits = args.logits + size_t{1} * token * args.weights.rows;
  rank_token(args, token, [&](int expert) { return __ldcg(logits + expert); });
}

// One CTA groups the step's pairs by expert, those whose expert is here. The order of an expert's pairs may differ from run to run; no
// result depends on it.
template <int threads>
__device__ void group_pairs(const RouteArgs& args) {
  NIBBLE_DYNAMIC_SHARED(int, counts);  // [E]: number of pairs, later index of the expert's first group
  const int num_experts = args.own.count, num_pairs = args.num_tokens * args.experts_per_token;
  const int size = args.groups.size;
  for (int e = static_cast<int>(threadIdx.x); e < num_experts; e += threads) counts[e] = 0;
  __syncthreads();
  for (int pair = static_cast<int>(threadIdx.x); pair < num_pairs; pair += threads)
    if (const int expert = __ldcg(args.chosen + pair); expert >= 0)
      args.rank[pair] = atomicAdd(&counts[expert], 1);
  __syncthreads();
  if (threadIdx.x <
      32) {  // each lane has a run of consecutive experts; a prefix sum over lanes gives the first group of each run
    const int lane = threadIdx.x, run = (num_experts + 31) / 32;
    int own = 0, own_rows = 0;  // groups, and rows of images of pairs
    for (int e = lane * run; e < min((lane + 1) * run, num_experts); ++e) {
      own += (counts[e] + size - 1) / size;
      own_rows += whole_eights(counts[e]);
    }
    int before = 0, count = 0, row = 0;
    cub::WarpScan<int>::TempStorage nothing;  // WarpScan shuffles: it needs no shared memory
    cub::WarpScan<int>(nothing).ExclusiveSum(own, before, count);
    cub::WarpScan<int>(nothing).ExclusiveSum(own_rows, row);
    if (lane == 0) *args.groups.count = count;
    for (int e = lane * run; e < min((lane + 1) * run, num_experts); ++e) {
      const int pairs = counts[e];
      counts[e] = before;
      for (int rest = pairs; rest > 0; rest -= size, ++before) {
        args.groups.expert[before] = e;
        args.groups.num_pairs[before] = min(rest, size);
        if (args.groups.image_row) args.groups.image_row[before] = row;
        row += whole_eights(min(rest, size));
      }
    }
  }
  __syncthreads();
  for (int pair = static_cast<int>(threadIdx.x); pair < num_pairs; pair += threads) {
    const int expert = __ldcg(args.chosen + pair);
    if (expert < 0) continue;
    const int group = counts[expert] + args.rank[pair] / size;
    args.groups.pairs[group * size + args.rank[pair] % size] = pair;
  }
}

}  // namespace nibble::cuda
