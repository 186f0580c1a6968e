#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/rank_and_group.cuh"

namespace nibble::cuda {
namespace {

constexpr int kWarps{16}, kThreads{32 * kWarps};

// Each warp ranks the experts of one token; then the last CTA to finish groups the pairs of all tokens. If
// there is only one CTA, the chosen experts stay in its shared memory.
__global__ void __launch_bounds__(kThreads, 1)
    rank_experts_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ int chosen[kWarps * kMaxExpertsPerToken];
  const bool is_alone = gridDim.x == 1;
  const int warp = static_cast<int>(threadIdx.x) / 32, K = args.experts_per_token;
  int* const counts = cleared_counts<kThreads>(args);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int token = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (token < args.num_tokens)
    rank_token(args, token, is_alone ? chosen + warp * K : args.chosen + token * K);
  if (is_alone) {
    __syncthreads();
    group_pairs<kThreads>(args, counts, [&](int pair) { return chosen[pair]; });
  } else if (is_last_of(args.ticket, gridDim.x)) {
    group_pairs<kThreads>(args, counts, [&](int pair) { return __ldcg(args.chosen + pair); });
  }
}

}  // namespace

void rank_experts(const LaunchContext& gpu, const RouteArgs& args) {
  const auto ctas = static_cast<unsigned>((args.num_tokens + kWarps - 1) / kWarps);
  launch(gpu, {Operation::kRoute, "rank"}, rank_experts_kernel,
         {dim3(ctas), kThreads, sizeof(int) * kMaxExperts}, args);
}

void route_many(const LaunchContext& gpu, const RouteArgs& args) {
  logits_many(gpu, args);
  rank_experts(gpu, args);
}
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args) {
  logits_wgmma(gpu, args);
  rank_experts(gpu, args);
}

void prepare_rank_experts() { prefer_shared_memory(rank_experts_kernel); }

}  // namespace nibble::cuda
