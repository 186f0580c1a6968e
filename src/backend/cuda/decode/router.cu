// The router of a batch: few strips, which few CTAs would read one after the other. Each CTA takes one segment of one strip instead, for all
// tokens, so that 120 of them (128 experts of 2,880 columns) load weights and activations at once, straight into registers. The segments'
// sums go through memory, and are added up in order by whoever ranks the experts.
#include <algorithm>

#include "backend/cuda/decode/router_segment.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/layout/image.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/routing.cuh"
#include "backend/cuda/ticket.cuh"

namespace nibble::cuda {
namespace {

constexpr int kSumWarps{8};  // at most, each with 8 tokens at a time
constexpr int kRankWarps{16};

// A lane's B registers for a group of 32 columns of a token, from `normed` as it lies in memory.
template <bool is_image>
__device__ uint4 activations_of(const RouteArgs& args, int token, int tile, int group, int t) {
  const int cols = args.hidden, first = tile * kTileCols + 32 * group;
  if constexpr (is_image) {
    const auto* cell = reinterpret_cast<const uint8_t*>(args.normed) + cell_of(token, tile, args.image_rows);
    const auto pair = [&](int of) {
      return *reinterpret_cast<const uint32_t*>(cell + place_in_cell(token, 32 * group + 8 * t + 2 * of));
    };
    return {pair(0), pair(1), pair(2), pair(3)};
  } else {
    if (first >= cols) return {0, 0, 0, 0};
    return *reinterpret_cast<const uint4*>(args.normed + size_t{1} * token * cols + first + 8 * t);
  }
}

// A CTA for each segment of each strip, a warp for every eighth group of 8 tokens.
template <bool is_image>
__global__ void __launch_bounds__(32 * kSumWarps)
    router_sums_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& router = args.weights;
  const auto unit = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4, T = args.num_tokens;
  const RouterSegment segment(router, unit);
  const int strip = unit / router.num_segments, width = router.num_strips * kStripRows;
  float* const to =
      args.sums + size_t{1} * (unit - strip * router.num_segments) * T * width + strip * kStripRows + g;
  wait_for_predecessor(timestamps);
  let_successor_start();
  for (int first = static_cast<int>(threadIdx.x) / 32 * 8; first < T;
       first += static_cast<int>(blockDim.x) / 32 * 8) {
    uint4 b[RouterSegment::kTiles][2];  // asked for at once
#pragma unroll
    for (int tile = 0; tile < RouterSegment::kTiles; ++tile)
#pragma unroll
      for (int group = 0; group < 2; ++group)
        if (tile < segment.num_tiles)
          b[tile][group] =
              activations_of<is_image>(args, min(first + g, T - 1), segment.first_tile + tile, group, t);
    float sums[4]{};
    segment.add([&](int tile, int group) { return b[tile][group]; }, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (const int token = first + 2 * t + i % 2; token < T)
        to[size_t{1} * token * width + i / 2 * 8] = sums[i];
  }
}

// Each warp adds up the sums of one token and ranks its experts; then the last CTA groups the pairs, unless their readers do. Where there is one
// CTA that groups, the experts do not leave it.
__global__ void __launch_bounds__(32 * kRankWarps)
    rank_sums_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  constexpr int kFour{4};
  static_assert(kMaxExperts == kFour * 32);
  const int lane = static_cast<int>(threadIdx.x) % 32, num_experts = args.weights.rows;
  const int warp = static_cast<int>(threadIdx.x) / 32,
            token = static_cast<int>(blockIdx.x) * kRankWarps + warp;
  const int width = args.weights.num_strips * kStripRows, segments = args.weights.num_segments;
  __shared__ int chosen[kRankWarps * kMaxExpertsPerToken];
  const bool is_alone = gridDim.x == 1;
  int* const counts = cleared_counts<32 * kRankWarps>(args);
  float bias[kFour];  // of the experts that the lane ranks
#pragma unroll
  for (int i = 0; i < kFour; ++i)
    bias[i] = kFour * lane + i < num_experts ? load_now(args.bias + kFour * lane + i) : 0;
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (token < args.num_tokens) {
    float4 logits{-0.0f, -0.0f, -0.0f, -0.0f};  // added to a sum, it leaves all its bits as they are
    if (kFour * lane < width) {
      const auto* sums =
          reinterpret_cast<const float4*>(args.sums + size_t{1} * token * width + kFour * lane);
      const auto stride = static_cast<unsigned>(args.num_tokens * width / kFour);
      constexpr int kRun{16};  // sums that are asked for at once: gpt-oss has 15 segments
      for (int first = 0; first < segments; first += kRun) {
        float4 more[kRun];
#pragma unroll
        for (int n = 0; n < kRun; ++n)
          if (first + n < segments) more[n] = __ldcg(sums + static_cast<unsigned>(first + n) * stride);
#pragma unroll
        for (int n = 0; n < kRun; ++n) {
          if (first + n >= segments) break;
          logits.x += more[n].x, logits.y += more[n].y, logits.z += more[n].z, logits.w += more[n].w;
        }
      }
    }
    const float of_lane[kFour]{logits.x + bias[0], logits.y + bias[1], logits.z + bias[2],
                               logits.w + bias[3]};
#pragma unroll
    for (int i = 0; i < kFour; ++i)
      if (kFour * lane + i < num_experts)
        args.logits[size_t{1} * token * num_experts + kFour * lane + i] = of_lane[i];
    const int K = args.experts_per_token;
    rank_token(
        args, token, [&](int expert) { return of_lane[static_cast<unsigned>(expert) % kFour]; },
        is_alone && !args.groups.chosen ? chosen + warp * K : args.chosen + token * K);
  }
  if (args.groups.chosen) return;
  if (is_alone) {
    __syncthreads();
    group_pairs<32 * kRankWarps>(args, counts, [&](int pair) { return chosen[pair]; });
  } else if (is_last_of(args.ticket, gridDim.x)) {
    group_pairs<32 * kRankWarps>(args, counts);
  }
}

}  // namespace

void route_batch(const LaunchContext& gpu, const RouteArgs& args) {
  const auto tokens = static_cast<unsigned>(args.num_tokens);
  const auto units = static_cast<unsigned>(args.weights.num_strips * args.weights.num_segments);
  const int warps = std::min((args.num_tokens + 7) / 8, kSumWarps);
  launch(gpu, {Operation::kRoute, "route"},
         args.image_rows ? router_sums_kernel<true> : router_sums_kernel<false>, {dim3(units), 32 * warps},
         args);
  launch(gpu, {Operation::kRoute, "rank"}, rank_sums_kernel,
         {dim3((tokens + kRankWarps - 1) / kRankWarps), 32 * kRankWarps, sizeof(int) * kMaxExperts}, args);
}

void prepare_router() {
  prefer_shared_memory(router_sums_kernel<true>);
  prefer_shared_memory(router_sums_kernel<false>);
  prefer_shared_memory(rank_sums_kernel);
}

}  // namespace nibble::cuda
