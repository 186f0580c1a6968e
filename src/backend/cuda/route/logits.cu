// The router for a batch. Each warp of a CTA loads one segment of the CTA's strip into registers before the
// activations are ready. The sums of segments are added in order, through shared memory. With few tokens,
// the launch also computes norm(x), the router's input.
#include <type_traits>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/normed_rows.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/segment.cuh"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

constexpr int kWarps{16};
constexpr int kMostSegments{(kMaxHidden / kTileCols + kRouterSegmentTiles - 1) / kRouterSegmentTiles};

// A strip of the router's matrix, and the sums of its segments for up to 8 tokens. All threads of a CTA must
// call each function.
class RouterStrip {
 public:
  using Sums = float[kMostSegments][kStripRows][kMaxColumns];

  __device__ RouterStrip(const RouteArgs& args, int strip, Sums& sums)
      : args_(args), strip_(strip), sums_(sums), segment_(args.weights, unit_of(warp())) {
    const int row = row_of_thread();
    if (row < args.weights.rows) bias_ = load_now(args.bias + row);
  }

  // Computes the logits of `count` tokens, from token `first` on, for the strip's experts.
  // activations(segment) requests a segment's activations, and returns a function f(tile, group). f returns
  // the lane's B registers for group 0 or 1 of a tile, 32 columns each.
  template <typename Activations>
  __device__ void multiply(int first, int count, const Activations& activations) {
    const int segments = args_.weights.num_segments;
    for (int segment = warp(); segment < segments; segment += kWarps) {
      if (segment >= kWarps) segment_ = RouterSegment(args_.weights, unit_of(segment));
      float sums[4]{};
      segment_.add(activations(segment_), sums);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums_[segment][lane() / 4 + i / 2 * 8][2 * (lane() % 4) + i % 2] = sums[i];
    }
    __syncthreads();
    const int row = row_of_thread(), column = static_cast<int>(threadIdx.x) % kMaxColumns;
    if (row >= args_.weights.rows || column >= count) return;
    float logit = sums_[0][row - strip_ * kStripRows][column];
#pragma unroll
    for (int segment = 1; segment < kMostSegments; ++segment)
      if (segment < segments) logit += sums_[segment][row - strip_ * kStripRows][column];
    args_.logits[size_t{1} * (first + column) * args_.weights.rows + row] = logit + bias_;
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  // Returns the row of the router whose logit this thread adds up for one token; a row past the end if the
  // thread adds up no logit.
  __device__ int row_of_thread() const {
    const int row = static_cast<int>(threadIdx.x) / kMaxColumns;
    return row < kStripRows ? strip_ * kStripRows + row : args_.weights.rows;
  }
  // Returns the number of a segment of the strip among the segments of all strips; a number past the end if
  // the strip has no such segment.
  __device__ int unit_of(int segment) const {
    const int segments = args_.weights.num_segments;
    return segment < segments ? strip_ * segments + segment : args_.weights.num_strips * segments;
  }

  const RouteArgs& args_;
  const int strip_;
  Sums& sums_;
  RouterSegment segment_;
  float bias_{0};
};

// Returns the lane's B registers for a group of 32 columns of a token's row of args.normed. `is_image`:
// whether args.normed is in wgmma's swizzled layout (an image, layout/activations.h) instead of plain rows.
// `t`: lane % 4.
template <bool is_image>
__device__ uint4 activations_of(const RouteArgs& args, int token, int tile, int group, int t) {
  const int cols = args.hidden, first = tile * kTileCols + 32 * group;
  if constexpr (is_image) {
    const auto* cell =
        reinterpret_cast<const uint8_t*>(args.normed.data) + cell_of(token, tile, args.normed.image_rows);
    const auto pair = [&](int of) {
      return *reinterpret_cast<const uint32_t*>(cell + place_in_cell(token, 32 * group + 8 * t + 2 * of));
    };
    return {pair(0), pair(1), pair(2), pair(3)};
  } else {
    if (first >= cols) return {0, 0, 0, 0};
    return *reinterpret_cast<const uint4*>(args.normed.data + size_t{1} * token * cols + first + 8 * t);
  }
}

// The kernel for steps in which another launch has computed norm(x) (args.normed). Each CTA handles one strip
// and 8 tokens.
template <bool is_image>
__global__ void __launch_bounds__(32 * kWarps)
    router_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ RouterStrip::Sums sums;
  RouterStrip strip(args, static_cast<int>(blockIdx.x), sums);
  const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(blockIdx.y) * kMaxColumns,
            token = min(first + lane / 4, args.num_tokens - 1);
  wait_for_predecessor(timestamps);
  let_successor_start();
  strip.multiply(first, args.num_tokens - first, [&](const RouterSegment& segment) {
    struct {
      uint4 of[RouterSegment::kTiles][2];
      __device__ uint4 operator()(int tile, int group) const { return of[tile][group]; }
    } b;  // all loads are issued before the first value is used
#pragma unroll
    for (int tile = 0; tile < RouterSegment::kTiles; ++tile)
#pragma unroll
      for (int group = 0; group < 2; ++group)
        if (tile < segment.num_tiles)
          b.of[tile][group] =
              activations_of<is_image>(args, token, segment.first_tile + tile, group, lane % 4);
    return b;
  });
}

// The kernel that also computes norm(x). Each CTA handles one strip and two tokens, and computes norm(x) of
// these tokens; CTAs of the first strip also store norm(x). Up to kRouterNorms tokens, Hopper has an SM for
// each CTA.
constexpr int kNormsOfCta{2};
template <bool is_image>
__global__ void __launch_bounds__(32 * kWarps, 1)
    norm_and_router_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ RouterStrip::Sums sums;
  NIBBLE_DYNAMIC_SHARED(__align__(16) __nv_bfloat16, normed);
  RouterStrip strip(args, static_cast<int>(blockIdx.x), sums);
  const int first = static_cast<int>(blockIdx.y) * kNormsOfCta, stride = activation_stride(args.hidden),
            count = min(kNormsOfCta, args.num_tokens - first), num_fours = args.hidden / 4;
  const NormedRows out{args.normed.data, args.hidden, is_image ? args.normed.image_rows : 0};
  const NormWeights<kWarps> norm_weights(args.norm.weights, args.hidden);
  NormInput norm = args.norm;
  norm.residual.experts = nullptr;  // null already; with this line, the compiler omits the experts' terms
  wait_for_predecessor(timestamps);
  let_successor_start();
  norm_weights.load<kNormsOfCta>(
      norm, [&](int column) { return first + column; }, {normed, stride, count},
      [&](int column, int i, float4 x, uint2 result) {
        if (blockIdx.x > 0) return;
        const size_t at = size_t{1} * (first + column) * num_fours + i;
        if (args.x) reinterpret_cast<float4*>(args.x)[at] = x;
        out.store(first + column, i, result);
      });
  for (int column = 0; blockIdx.x == 0 && column < count; ++column) out.pad(first + column);
  const LaneColumn lane_column({normed, stride, count}, static_cast<int>(threadIdx.x) % 32);
  strip.multiply(first, count, [&](const RouterSegment& segment) {
    return [&](int tile, int group) { return lane_column.activations(segment.first_tile + tile, group); };
  });
}

template <typename F>
void with_kernel(bool makes_norm, bool is_image, const F& f) {
  if (is_image)
    f(makes_norm ? norm_and_router_kernel<true> : router_kernel<true>);
  else
    f(makes_norm ? norm_and_router_kernel<false> : router_kernel<false>);
}

}  // namespace

void route_batch(const LaunchContext& gpu, const RouteArgs& args) {
  const bool makes_norm = args.norm.weights;
  NIBBLE_CHECK(!makes_norm || args.num_tokens <= kRouterNorms, "{} norms", args.num_tokens);
  const int tokens_of_cta = makes_norm ? kNormsOfCta : kMaxColumns;
  with_kernel(makes_norm, args.normed.image_rows > 0, [&](auto* kernel) {
    launch(gpu, {Operation::kRoute, "route"}, kernel,
           {dim3(static_cast<unsigned>(args.weights.num_strips),
                 static_cast<unsigned>((args.num_tokens + tokens_of_cta - 1) / tokens_of_cta)),
            32 * kWarps, makes_norm ? activation_bytes(args.hidden, kNormsOfCta) : 0},
           args);
  });
  if (!are_matched(args.num_tokens, args.experts_per_token, args.groups.size, args.normed.image_rows > 0))
    rank_experts(gpu, args);
}

void prepare_router() {
  for (const bool makes_norm : {false, true})
    for (const bool is_image : {true, false})
      with_kernel(makes_norm, is_image, [](auto* kernel) { prefer_shared_memory(kernel); });
}

}  // namespace nibble::cuda
