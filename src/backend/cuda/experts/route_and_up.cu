// The norm, the router and experts_up of one or two tokens in one launch, whose CTAs exchange the router's
// sums.
#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_stream.cuh"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/experts/pass_routing.cuh"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/route/segment.cuh"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

// Polls `count` mailbox words until they carry the tag, and copies their data. All threads of the CTA must
// call it.
template <int threads>
__device__ void wait_for_all(const uint64_t* from, int count, uint32_t tag, float* to) {
  constexpr int kAhead{4};
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kAhead * threads) {
    uint64_t word[kAhead];
    bool have_all = false;
    while (!have_all) {
      have_all = true;
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
        if (first + n * threads < count) word[n] = load_relaxed(from + first + n * threads);
#pragma unroll
      for (int n = 0; n < kAhead; ++n) have_all &= first + n * threads >= count || word[n] >> 32 == tag;
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n)
      if (first + n * threads < count)
        to[first + n * threads] = __uint_as_float(static_cast<uint32_t>(word[n]));
  }
}
// A warp's part of the router: one segment of one strip.
struct RouterShare {
  RouterSegment segment;
  int unit;  // index of the segment, counted over all strips of the router
  uint32_t tag;
  float bias;  // the router's bias for the expert whose logit this thread adds up
};
// Shared memory for all sums and logits of the router. This memory may overlap the rings, which are not in
// use before the logits are known.
struct RouterMemory {
  float *sums, *logits;
};

// Computes the router's logits of one or two tokens in shared memory, kMaxExperts per token, and synchronizes
// the CTA. Each segment is multiplied by one warp of the launch, which publishes the segment's sums; every
// CTA polls for the sums of all segments and adds them up. Calls `meanwhile` after publishing the CTA's own
// sums.
template <int warps, int tokens, typename Meanwhile>
__device__ void gather_logits(const RouteAndExpertsUpArgs& args, const RouterShare& share,
                              const Columns& columns, const RouterMemory& memory,
                              const Meanwhile& meanwhile) {
  const RouterSegment& segment = share.segment;
  // Lanes 0, 4, 8, ... hold columns 0 and 1 of a product, which are the sums of one or two tokens. One thread
  // adds up the logit of a token and an expert.
  static_assert(tokens <= 2 && tokens * kMaxExperts <= 32 * warps);
  const auto thread = static_cast<int>(threadIdx.x);
  const int token = tokens == 1 ? 0 : thread / kMaxExperts;
  const int expert = thread - token * kMaxExperts, lane = thread % 32, strip = expert / kStripRows;
  const int segments = args.router.num_segments, num_sums = args.router.num_strips * segments * kStripRows;
  if (segment.num_tiles > 0) {
    float own[4]{};
    const LaneColumn column(columns, lane);
    segment.add([&](int tile, int group) { return column.activations(segment.first_tile + tile, group); },
                own);
    if (lane % 4 == 0) {
      uint64_t* to = args.routing.sums + size_t{1} * share.unit * kStripRows + lane / 4;
#pragma unroll
      for (int n = 0; n < tokens; ++n) {
        publish(to + n * num_sums, share.tag, __float_as_uint(own[n]));
        publish(to + n * num_sums + 8, share.tag, __float_as_uint(own[2 + n]));
      }
    }
  }
  meanwhile();
  wait_for_all<32 * warps>(args.routing.sums, tokens * num_sums, share.tag, memory.sums);
  __syncthreads();
  const BatchSums sums{memory.sums + token * num_sums, 0, args.router.num_strips * segments, segments, 1};
  if (token < tokens && expert < args.router.rows)
    memory.logits[token * kMaxExperts + expert] =
        sums.sum_segments(strip, expert % kStripRows, 0) + share.bias;
  __syncthreads();
}

// Chooses a single token's experts, in the first warp of a CTA. `has_all`: whether this rank holds all
// experts.
template <bool has_all>
class SlotRouting {
 public:
  __device__ SlotRouting(const RouteAndExpertsUpArgs& args, uint32_t tag, const float* logits)
      : args_(args),
        tag_(tag),
        ranking_(chooses() ? args.router.rows : 0, [&](int e) { return logits[e]; }) {}

  static __device__ bool chooses() { return threadIdx.x < 32; }  // whether the calling warp makes the choice
  static __device__ int slot() { return static_cast<int>(blockIdx.y); }
  // Chooses experts, and returns this CTA's work. A CTA works on one slot: an index among the token's chosen
  // experts. If this rank holds all experts, the choice stops at the expert of that slot, to save time.
  __device__ SlotWork choose() {
    const int expert = take(0, has_all ? slot() + 1 : args_.experts_per_token);
    return has_all ? SlotWork{slot(), expert, 0, 1} : work_of_slots(args_.own, of_lane_);
  }
  // Publishes the expert at this CTA's slot, and its weight, for experts_down. Only the slot's first CTA does
  // so.
  __device__ void pass_on(const SlotWork& work) {
    if (!chooses() || blockIdx.x > 0) return;
    if (has_all) take(slot() + 1, args_.experts_per_token);
    const int expert = has_all ? work.expert : of_lane_;
    const float weight = weight_of_place(logit_);
    if (lane_ != slot()) return;
    args_.routing.weights[slot()] = has_all || args_.own.has(expert) ? weight : 0;
    publish(args_.routing.experts + slot(), tag_, static_cast<uint32_t>(expert));
  }

 private:
  // Chooses the experts with indices `from` to `to` - 1 among the token's chosen experts (their slots).
  // Returns the last of these experts.
  __device__ int take(int from, int to) {
    int expert = 0;
#pragma unroll 1  // keeps the code short: a launch must first fetch its instructions
    for (int k = from; k < to; ++k) {
      const Ranking::Place place = ranking_.next();
      if (lane_ == k) logit_ = place.logit;
      if (!has_all && lane_ == k) of_lane_ = place.expert;
      expert = place.expert;
    }
    return expert;
  }

  const RouteAndExpertsUpArgs& args_;
  const uint32_t tag_;
  const int lane_{static_cast<int>(threadIdx.x) % 32};
  Ranking ranking_;
  float logit_{-INFINITY};  // logit of the token's chosen expert number lane_; -infinity until it is chosen
  int of_lane_{0};          // the token's chosen expert number lane_; not used if has_all
};

// The kernel for one token. `has_all`: whether this rank holds all experts.
template <int warps, bool has_all>
__global__ void __launch_bounds__(32 * warps, 1)
    route_and_experts_up_kernel(const __grid_constant__ RouteAndExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.up.weights;
  const int cols = args.up.hidden, cta = static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x);
  const int unit = cta + static_cast<int>(threadIdx.x / 32 * gridDim.x * gridDim.y);
  const RouterShare router{
      RouterSegment(args.router, unit), unit, tag_of(args.routing),
      static_cast<int>(threadIdx.x) < args.router.rows ? load_now(args.router_bias + threadIdx.x) : 0};
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, 1);
  const UnitRange of_row = share_of_strips(weights, weights.num_strips);
  // The router's sums overlap the rings of the last warps. The rings of the other warps are initialized
  // while the sums arrive.
  using Later = typename Ring<Layout::kMxfp4, kExpertSlots>::Later;
  const auto ring = ring_of_warp<Layout::kMxfp4, kExpertSlots>(shared.ring, Later());
  const int sums_bytes = args.router.num_strips * args.router.num_segments * static_cast<int>(unit_bytes(1));
  auto* const sums = reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(shared.activations) - sums_bytes);
  const bool is_under_sums =
      shared.ring + (threadIdx.x / 32 + 1) * warp_ring_bytes(Layout::kMxfp4, kExpertSlots) >
      reinterpret_cast<uint8_t*>(sums);
  wait_for_predecessor(timestamps);
  let_successor_start();
  NormInput norm = args.norm;
  norm.residual.experts = nullptr;  // null already; with this line, the compiler omits the experts' terms
  norm_weights.load(
      norm, [](int) { return 0; }, {shared.activations, activation_stride(cols), 1},
      [&](int, int i, float4 x, uint2) {
        if (cta == 0) reinterpret_cast<float4*>(args.x)[i] = x;
      });
  __shared__ float logits[kMaxExperts];
  __shared__ SlotWork taken;
  gather_logits<warps, 1>(args, router, {shared.activations, activation_stride(cols), 1}, {sums, logits},
                          [&] {
                            if (!is_under_sums) ring.init();
                          });
  SlotRouting<has_all> routing(args, router.tag, logits);
  if (routing.chooses()) {
    const SlotWork work = routing.choose();
    if (threadIdx.x == 0) taken = work;
  }
  __syncthreads();
  if (is_under_sums) ring.init();
  if (timestamps.middle && threadIdx.x == 0) atomicMax(timestamps.middle, now_ns());
  const SlotWork work = has_all ? SlotWork{routing.slot(), taken.expert, 0, 1} : taken;
  if (work.num_rows == 0) return routing.pass_on(work);
  const UnitRange share =
      has_all ? of_row : share_of_strips(weights, weights.num_strips, work.row, work.num_rows);
  const Group group{work.expert, 1, nullptr, 0, work.slot};
  ExpertStream<warps, OneMatrix> stream(weights, {weights.data + group.expert * weights.matrix_bytes()},
                                        share.first, share.last, ring);
  stream.start_prefetch();
  stream.fill_ring();
  auto epilogue = up_epilogue<warps>(args.up, units_of_slot(share), group, args.gated);
  routing.pass_on(work);
  epilogue.run(stream, {shared.activations, activation_stride(cols), 1}, shared);
}

// The kernel for two tokens. Every CTA ranks the experts of both tokens, because CTAs share the strips of
// all groups: what a CTA computes depends on all chosen experts. The norms of both tokens stay in shared
// memory, so nothing is loaded between groups.
template <int warps>
__global__ void __launch_bounds__(32 * warps, 1)
    route_two_and_experts_up_kernel(const __grid_constant__ RouteAndExpertsUpArgs args,
                                    Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  constexpr int kTokens{2};
  const Strips& weights = args.up.weights;
  const int cols = args.up.hidden, stride = activation_stride(cols), K = args.experts_per_token;
  const auto cta = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int unit = cta + static_cast<int>(threadIdx.x / 32 * gridDim.x);
  const RouterShare router{
      RouterSegment(args.router, unit), unit, tag_of(args.routing),
      thread % kMaxExperts < args.router.rows ? load_now(args.router_bias + thread % kMaxExperts) : 0};
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, kTokens);
  wait_for_predecessor(timestamps);
  let_successor_start();
  NormInput norm = args.norm;
  norm.residual.experts = nullptr;  // null already; with this line, the compiler omits the experts' terms
  norm_weights.template load<kTokens>(
      norm, [](int column) { return column; }, {shared.activations, stride, kTokens},
      [&](int column, int i, float4 x, uint2) {
        if (cta == 0) reinterpret_cast<float4*>(args.x)[column * (cols / 4) + i] = x;
      });
  auto* const sums = reinterpret_cast<float*>(shared.ring);
  float* const logits = sums + kTokens * args.router.num_strips * args.router.num_segments * kStripRows;
  gather_logits<warps, kTokens>(args, router, {shared.activations, stride, kTokens}, {sums, logits}, [] {});
  __shared__ int chosen[kTokens * kMaxExpertsPerToken];
  if (const int token = thread / 32; token < kTokens)
    choose_experts(
        {args.router.rows, K, args.own, args.routing, router.tag, cta == 0}, token,
        [&](int e) { return logits[token * kMaxExperts + e]; }, chosen);
  __syncthreads();
  if (timestamps.middle && thread == 0) atomicMax(timestamps.middle, now_ns());
  const Groups none{};
  const GroupTable table(none, kTokens * K, [&](int pair) { return number_of(args.own, chosen[pair]); });
  const UnitRange share = share_of_groups(weights, table.count());
  ExpertStream<warps, GroupMatrices> stream(weights, {weights, table}, share.first, share.last, shared.ring);
  for (int from = share.first; from < share.last;) {
    const GroupUnits units = units_from(weights, share, from);
    const Group group = table.group(units.group);
    if (from == share.first) {
      stream.start_prefetch();
      stream.fill_ring();
    }
    auto epilogue = up_epilogue<warps>(args.up, units, group, args.gated);
    // A group has one of the two tokens, or both. The columns of the group's product are norms that are
    // adjacent in shared memory.
    const __nv_bfloat16* const norms = shared.activations + group.pair(0) / K * stride;
    epilogue.run(stream, {norms, stride, group.count}, shared);
    from = units.last;
  }
}

int num_router_units(const Strips& router) { return router.num_strips * router.num_segments; }

ExpertsUpLaunch launch_for_two(const Target& target, const Strips& up, int hidden, int experts_per_token) {
  return experts_up_launch(target, up, hidden, 2, 2 * experts_per_token);
}
bool has_route_and_experts_up_of_two(const Target& target, const Strips& router, const Strips& up, int hidden,
                                     int experts_per_token) {
  const ExpertsUpLaunch of = launch_for_two(target, up, hidden, experts_per_token);
  const StreamShape& shape = of.stream;
  const int num_ctas = static_cast<int>(of.grid.x), units = num_router_units(router);
  return shape.columns == 2 &&
         2 * (static_cast<size_t>(units) * unit_bytes(1) + kMaxExperts * sizeof(float)) <=
             ring_bytes(up.layout, shape.of) &&
         units <= num_ctas * shape.of.warps;
}

template <typename F>
void with_kernel_of_one(int warps, bool has_all, const F& f) {
  if (has_all)
    f(warps == 8 ? route_and_experts_up_kernel<8, true> : route_and_experts_up_kernel<16, true>);
  else
    f(warps == 8 ? route_and_experts_up_kernel<8, false> : route_and_experts_up_kernel<16, false>);
}
template <typename F>
void with_kernel_of_two(int warps, const F& f) {
  f(warps == 8 ? route_two_and_experts_up_kernel<8> : route_two_and_experts_up_kernel<16>);
}

}  // namespace

bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token) {
  const ExpertsUpLaunch of = experts_up_launch_of_one(target, up, hidden, experts_per_token);
  const StreamShape& shape = of.stream;
  const int num_ctas = static_cast<int>(of.grid.x * of.grid.y), units = num_router_units(router);
  return static_cast<size_t>(units) * unit_bytes(1) <= ring_bytes(up.layout, shape.of) &&
         router.segment_tiles <= RouterSegment::kTiles && units <= num_ctas * shape.of.warps &&
         num_ctas <= target.num_multiprocessors &&
         has_route_and_experts_up_of_two(target, router, up, hidden, experts_per_token);
}
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args) {
  const Strips& weights = args.up.weights;
  NIBBLE_CHECK(
      has_route_and_experts_up(gpu.target, args.router, weights, args.up.hidden, args.experts_per_token),
      "{} experts of {} strips", args.router.rows, weights.num_strips);
  NIBBLE_CHECK(args.num_tokens <= kOwnNorms, "{} tokens", args.num_tokens);
  RouteAndExpertsUpArgs launched = args;
  constexpr Label kLabel{Operation::kExpertsUp, "experts_up", Operation::kRoute, "route"};
  if (args.num_tokens == 2) {
    const ExpertsUpLaunch two = launch_for_two(gpu.target, weights, args.up.hidden, args.experts_per_token);
    launched.up.weights = two.stream.strips(weights, two.grid.x);
    return with_kernel_of_two(two.stream.of.warps, [&](auto* kernel) {
      launch(gpu, kLabel, kernel, alone(two.stream, two.grid), launched);
    });
  }
  const ExpertsUpLaunch one =
      experts_up_launch_of_one(gpu.target, weights, args.up.hidden, args.experts_per_token);
  launched.up.weights = one.stream.strips(weights, one.grid.x);
  with_kernel_of_one(one.stream.of.warps, args.own.count == args.router.rows, [&](auto* kernel) {
    launch(gpu, kLabel, kernel, alone(one.stream, one.grid), launched);
  });
}

void prepare_route_and_experts_up() {
  const auto allow = [](auto* kernel) { allow_all_shared_bytes(kernel); };
  for (const int warps : {8, 16})
    for (const bool has_all : {true, false}) with_kernel_of_one(warps, has_all, allow);
  for (const int warps : {8, 16}) with_kernel_of_two(warps, allow);
}

}  // namespace nibble::cuda
