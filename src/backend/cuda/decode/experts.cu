// The experts' matrix products: experts_up (with SwiGLU) and experts_down. A group is one expert and up to 8 pairs of token and slot. The
// strips of all groups are shared (group_share.h): a CTA may have the end of one group and the beginning of the next. A single token makes
// one group for each of its experts, before anybody has counted them: there each slot has its CTAs. Of up to two tokens the router is in
// the launch of experts_up.
#include <algorithm>
#include <type_traits>

#include "backend/cuda/choice.cuh"
#include "backend/cuda/decode/group_share.h"
#include "backend/cuda/decode/router_segment.cuh"
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"
#include "core/check.h"

namespace nibble::cuda {
namespace {

// An expert and its pairs: a list of them, or the bits of `matched`, or, where neither is there, the slot of a single token.
struct Group {
  int expert, count;
  const int* pairs;
  unsigned matched;
  int slot;

  __device__ int pair(int column) const {
    if (pairs) return __ldcg(pairs + column);
    if (matched == 0) return slot;
    unsigned rest = matched;
    for (int n = 0; n < column; ++n) rest &= rest - 1;
    return __ffs(static_cast<int>(rest)) - 1;
  }
};

// Holds what a CTA has to know about the groups to find its own. All of it is asked for at once, because each of these loads takes as long
// as a strip's weights. Few pairs (are_matched) are grouped here: the first lane of those whose pairs share an expert has their group.
class GroupTable {
 public:
  __device__ GroupTable(const Groups& groups, int max_groups) : groups_(groups) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    index_ = lane;
    if (lane < max_groups) {
      expert_ = __ldcg(groups.expert + lane);
      pairs_ = static_cast<unsigned>(__ldcg(groups.num_pairs + lane));
    }
    count_ = __ldcg(groups.count);
  }
  // Groups few pairs: `expert_of(pair)` is called by the pair's lane.
  template <typename ExpertOf>
  __device__ GroupTable(const Groups& groups, int num_pairs, const ExpertOf& expert_of) : groups_(groups) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    match(lane < num_pairs ? expert_of(lane) : -1 - lane);
  }
  __device__ int count() const { return count_; }
  // Called by whole warps.
  __device__ int expert(int index) const {
    return index < 32 ? __shfl_sync(~0u, expert_, lane_of(index)) : __ldcg(groups_.expert + index);
  }
  __device__ Group group(int index) const {
    const unsigned pairs = index < 32 ? __shfl_sync(~0u, pairs_, lane_of(index))
                                      : static_cast<unsigned>(__ldcg(groups_.num_pairs + index));
    if (is_matched_) return {expert(index), __popc(pairs), nullptr, pairs, 0};
    return {expert(index), static_cast<int>(pairs), groups_.pairs + index * groups_.size, 0, 0};
  }

 private:
  // `expert`: of the lane's pair. Below 0 there is none: a lane without a pair, or one whose pair is another rank's.
  __device__ void match(int expert) {
    is_matched_ = true;
    expert_ = expert;
    pairs_ = __match_any_sync(~0u, expert);
    const unsigned before = (1u << threadIdx.x % 32) - 1;
    const bool is_first = expert >= 0 && (pairs_ & before) == 0;
    const unsigned first = __ballot_sync(~0u, is_first);
    index_ = is_first ? __popc(first & before) : -1;
    count_ = __popc(first);
  }
  __device__ int lane_of(int index) const {
    return __ffs(static_cast<int>(__ballot_sync(~0u, index_ == index))) - 1;
  }

  const Groups& groups_;
  int expert_{0}, index_{-1}, count_{0};  // of the lane's group; count_ is the same in all
  bool is_matched_{false};
  unsigned pairs_{0};  // their number or, where they are matched, their bits
};

// The units that a CTA takes, whole strips. Those of group n follow those of group n - 1.
using Share = UnitRange;
// Returns this blockIdx.x's even share of `num_strips` strips, which so many rows of CTAs divide.
__device__ Share share_of_strips(const Strips& weights, int num_strips, unsigned row = 0,
                                 unsigned num_rows = 1) {
  const auto first = [&](unsigned cta) {
    return static_cast<int>(weights.by_ctas.quotient(static_cast<unsigned>(num_strips) * cta / num_rows)) *
           weights.num_segments;
  };
  const unsigned cta = row * gridDim.x + blockIdx.x;
  return {first(cta), first(cta + 1)};
}

// The part of a single token's experts that a row of CTAs takes. Where other ranks have some of the chosen experts, their slots' rows help with the others:
// with two slots of four here, each has two rows; with three, the fourth row has nothing.
struct SlotPart {
  int slot, expert;        // as the weights count experts
  unsigned row, num_rows;  // of the slot; 0: nothing
};
// `expert` is that of the slot that is the lane's. Called by a whole warp.
__device__ SlotPart part_of_slots(const IndexRange& own, int expert) {
  unsigned here = __ballot_sync(~0u, threadIdx.x % 32 < gridDim.y && own.has(expert));
  const unsigned count = __popc(here), num_rows = count > 0 ? gridDim.y / count : 0;
  if (blockIdx.y >= count * num_rows) return {0, 0, 0, 0};
  for (unsigned before = blockIdx.y % count; before > 0; --before) here &= here - 1;
  const int slot = __ffs(static_cast<int>(here)) - 1;
  return {slot, __shfl_sync(~0u, expert, slot) - own.first, blockIdx.y / count, num_rows};
}
// Returns its share of the strips of all groups.
__device__ Share share_of_groups(const Strips& weights, int num_groups) {
  const auto first = [&](unsigned cta) {
    return first_strip_of(weights, num_groups, cta) * weights.num_segments;
  };
  return {first(blockIdx.x), first(blockIdx.x + 1)};
}

// The part of a share that belongs to one group.
struct Piece {
  int group, first_strip, first, last;  // first_strip: the group's, in the numbering of the units
};
__device__ Piece piece_of_slot(const Share& share) { return {0, 0, share.first, share.last}; }
__device__ Piece piece_from(const Strips& weights, const Share& share, int from) {
  const int units = weights.num_strips * weights.num_segments;
  const auto group =
      static_cast<int>(weights.by_strips.quotient(weights.by_segments.quotient(static_cast<unsigned>(from))));
  return {group, group * weights.num_strips, from, min(share.last, (group + 1) * units)};
}

constexpr int kExpertSlots{2};  // of a warp's ring
static_assert(is_for({16, kExpertSlots}, Layout::kMxfp4));

// The experts of the groups.
struct GroupMatrices {
  static constexpr bool kMayEnd{false};
  const Strips& weights;
  const GroupTable& table;
  __device__ const uint8_t* operator()(int group) const {
    return weights.data + table.expert(group) * weights.matrix_bytes();
  }
};
template <int warps, typename Matrices>
using ExpertStream = UnitStream<Layout::kMxfp4, warps, kExpertSlots, Matrices>;

// Epilogue: adds up a piece's segments, kRows values for each strip and column. prepare(strip, row) prefetches the
// bias; take(strip, row, column, prepared, sum) applies it and stores the result, where sum(row) adds up the segments
// of a row of the strip.
template <int kRows, int warps, typename Prepare, typename Take>
class Epilogue {
 public:
  // Prefetches the biases of the first sums. They are requested before any weights: behind those they would wait.
  __device__ Epilogue(const Strips& weights, const Piece& piece, int count, const Prepare& prepare,
                      const Take& take)
      : weights_(weights), piece_(piece), count_(count), prepare_(prepare), take_(take) {
    prepare_first(piece.first, piece.last);
  }
  // Streams the piece's weights past the activations, and finishes the sums batch by batch.
  template <typename Stream>
  __device__ void run(Stream& stream, int cols, const CtaMemory& shared) {
    const int capacity = shared.num_partials / (kStripRows * count_), segments = weights_.num_segments;
    for (int from = piece_.first; from < piece_.last;) {
      const int end = batch_end(from, piece_.last, segments, capacity);
      if (from != piece_.first) prepare_first(from, end);
      stream.run(end, {shared.activations, activation_stride(cols), count_}, shared.partials, from);
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < num_values(from, end); i += 32 * warps) {
        const int column = i - divide(i, count_) * count_, row = row_of(i), strip = strip_of(i, from);
        const int of_expert = strip - piece_.first_strip;
        take_(of_expert, row, column, i == static_cast<int>(threadIdx.x) ? first_ : prepare_(of_expert, row),
              [&](int strip_row) {
                return sum_segments(shared.partials, from, end, strip, segments, strip_row, column, count_);
              });
      }
      __syncthreads();
      from = end;
    }
  }

 private:
  __device__ int num_values(int from, int end) const {
    return (end - from) / weights_.num_segments * kRows * count_;
  }
  __device__ int row_of(int i) const { return divide(i, count_) % kRows; }
  __device__ int strip_of(int i, int from) const {
    return static_cast<int>(weights_.by_segments.quotient(static_cast<unsigned>(from))) +
           divide(i, count_) / kRows;
  }
  __device__ void prepare_first(int from, int end) {
    const int own = static_cast<int>(threadIdx.x);
    if (own < num_values(from, end)) first_ = prepare_(strip_of(own, from) - piece_.first_strip, row_of(own));
  }

  const Strips& weights_;
  const Piece piece_;
  const int count_;
  const Prepare prepare_;
  const Take take_;
  std::invoke_result_t<Prepare, int, int> first_{};
};

// Adds the bias and applies SwiGLU.
template <int warps>
__device__ auto up_epilogue(const UpWeights& up, const Piece& piece, const Group& group,
                            __nv_bfloat16* gated) {
  constexpr int kUnits{kStripRows / 2};  // gate rows of a strip; as many up rows follow
  const float* bias = up.bias + size_t{2} * group.expert * up.intermediate;
  const auto prepare = [=, &up](int strip, int row) {
    const int unit = strip * kUnits + row;
    return unit < up.intermediate ? load_now(reinterpret_cast<const float2*>(bias) + unit) : float2{};
  };
  const auto take = [=, &up](int strip, int row, int column, float2 biases, const auto& sum) {
    const int unit = strip * kUnits + row;
    if (unit >= up.intermediate) return;
    const float value = swiglu(sum(row) + biases.x, sum(row + kUnits) + biases.y, up.limit);
    gated[size_t{1} * group.pair(column) * up.intermediate + unit] = __float2bfloat16_rn(value);
  };
  return Epilogue<kUnits, warps, decltype(prepare), decltype(take)>(up.weights, piece, group.count, prepare,
                                                                    take);
}

// Adds the bias and multiplies by the pair's weight.
template <int warps, typename WeightOf>
__device__ auto down_epilogue(const ExpertsDownArgs& args, const Piece& piece, const Group& group,
                              const WeightOf& weight_of) {
  const float* bias = args.bias + size_t{1} * group.expert * args.hidden;
  const auto prepare = [=, &args](int strip, int strip_row) {
    const int row = strip * kStripRows + strip_row;
    return row < args.hidden ? load_now(bias + row) : 0.0f;
  };
  const auto take = [=, &args](int strip, int strip_row, int column, float bias_of_row, const auto& sum) {
    const int row = strip * kStripRows + strip_row, pair = group.pair(column);
    if (row < args.hidden)
      args.out[size_t{1} * pair * args.hidden + row] = weight_of(pair) * (sum(strip_row) + bias_of_row);
  };
  return Epilogue<kStripRows, warps, decltype(prepare), decltype(take)>(args.weights, piece, group.count,
                                                                        prepare, take);
}

__device__ void publish(uint64_t* to, uint32_t tag, uint32_t bits) {
  store_relaxed(to, uint64_t{tag} << 32 | bits);
}
__device__ uint32_t wait_for(const uint64_t* from, uint32_t tag) {
  uint64_t word = load_relaxed(from);
  while (word >> 32 != tag) word = load_relaxed(from);
  return static_cast<uint32_t>(word);
}
__device__ uint32_t tag_of(const RoutingMailbox& routing) {
  return load_now(routing.step) * routing.num_layers + routing.layer;
}

// A warp chooses the experts of a token, by logit_of(expert), and leaves them in `chosen`. Where `passes_on`, it also leaves the routing to
// experts_down.
template <typename LogitOf>
__device__ void rank_for_cta(int num_experts, int experts_per_token, const IndexRange& own, int token,
                             const LogitOf& logit_of, const RoutingMailbox& routing, uint32_t tag,
                             bool passes_on, int* chosen) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first = token * experts_per_token;
  Ranking ranking(num_experts, logit_of);
  float logit = -INFINITY;
  int expert = 0;  // of the slot that is the lane's
#pragma unroll 1   // instructions that are there already: a launch has to fetch those that it executes once
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

template <int warps>
__global__ void __launch_bounds__(32 * warps, 1)
    experts_up_kernel(const __grid_constant__ ExpertsUpArgs args, int pass_columns, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.up.weights;
  const int cols = args.up.hidden, num_pairs = args.num_tokens * args.experts_per_token;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const bool ranks = args.routing.experts;
  __shared__ int chosen[kMatchedPairs];
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (ranks) {
    if (warp < args.num_tokens) {
      const float* logits = args.logits + size_t{1} * warp * args.num_experts;
      rank_for_cta(
          args.num_experts, args.experts_per_token, args.own, warp,
          [&](int expert) { return __ldcg(logits + expert); }, args.routing, tag_of(args.routing),
          blockIdx.x == 0, chosen);
    }
    __syncthreads();
  }
  const GroupTable table =
      ranks ? GroupTable(args.groups, num_pairs, [&](int pair) { return number_of(args.own, chosen[pair]); })
            : GroupTable(args.groups, args.max_groups);
  const Share share = share_of_groups(weights, table.count());
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, pass_columns);
  ExpertStream<warps, GroupMatrices> stream(weights, {weights, table}, share.first, share.last, shared.ring);
  const auto row_at = [&](const Group& group) {
    return [&](int column) { return group.pair(column) / args.experts_per_token; };
  };
  RowPrefetch<warps> rows;
  for (int from = share.first; from < share.last;) {
    const Piece piece = piece_from(weights, share, from);
    const Group group = table.group(piece.group);
    const bool is_first = from == share.first;
    // Activations are requested first: behind weights they would wait for those.
    if (is_first) rows.prefetch(args.normed, cols, group.count, row_at(group));
    auto epilogue = up_epilogue<warps>(args.up, piece, group, args.gated);
    if (is_first) {
      stream.start_prefetch();
      stream.fill_ring();
    }
    rows.store(args.normed, cols, group.count, row_at(group), shared.activations, activation_stride(cols));
    if (piece.last < share.last) {
      const Group next = table.group(piece.group + 1);
      rows.prefetch(args.normed, cols, next.count, row_at(next));
    }
    epilogue.run(stream, cols, shared);
    from = piece.last;
  }
}

// Called by the whole CTA. Each thread polls several words at once, so that their latencies overlap.
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
// Leaves the router's logits of one token or two in shared memory, kMaxExperts apart, and synchronizes the CTA. One warp of the launch adds
// up each segment of the router and publishes the sums; every CTA polls for all sums and adds up the segments. No kernel has to end for that.
// `sums`: room for the sums of all segments. The ring has it: no weights are asked for before the experts are known.
template <int warps, int tokens>
__device__ void gather_logits(const RouteAndExpertsUpArgs& args, const RouterSegment& segment, int unit,
                              uint32_t tag, float bias, const Columns& columns, float* sums, float* logits) {
  static_assert(tokens <= 2 && tokens * kMaxExperts <= 32 * warps);  // lane 4 n has the columns 0 and 1
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
      uint64_t* to = args.routing.sums + size_t{1} * unit * kStripRows + lane / 4;
#pragma unroll
      for (int n = 0; n < tokens; ++n) {
        publish(to + n * num_sums, tag, __float_as_uint(own[n]));
        publish(to + n * num_sums + 8, tag, __float_as_uint(own[2 + n]));
      }
    }
  }
  wait_for_all<32 * warps>(args.routing.sums, tokens * num_sums, tag, sums);
  __syncthreads();
  if (token < tokens && expert < args.router.rows)
    logits[token * kMaxExperts + expert] =
        sum_segments(sums + token * num_sums, 0, args.router.num_strips * segments, strip, segments,
                     expert % kStripRows, 0, 1) +
        bias;
  __syncthreads();
}

// `has_all`: no other rank has experts.
template <int warps, bool has_all>
__global__ void __launch_bounds__(32 * warps, 1)
    route_and_experts_up_kernel(const __grid_constant__ RouteAndExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.up.weights;
  const int cols = args.up.hidden, cta = static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x);
  const int unit = cta + static_cast<int>(threadIdx.x / 32 * gridDim.x * gridDim.y);
  const RouterSegment segment(args.router, unit);
  const uint32_t tag = tag_of(args.routing);
  const float bias =
      static_cast<int>(threadIdx.x) < args.router.rows ? load_now(args.router_bias + threadIdx.x) : 0;
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, 1);
  const Share of_row = share_of_strips(weights, weights.num_strips);
  wait_for_predecessor(timestamps);
  let_successor_start();
  norm_weights.load(
      args.norm, 1, [](int) { return 0; }, shared.activations, activation_stride(cols),
      [&](int, int i, float4 x, uint2) {
        if (cta == 0) reinterpret_cast<float4*>(args.x)[i] = x;
      });
  __shared__ float logits[kMaxExperts];
  __shared__ SlotPart taken;
  gather_logits<warps, 1>(args, segment, unit, tag, bias, {shared.activations, activation_stride(cols), 1},
                          reinterpret_cast<float*>(shared.ring), logits);
  // One warp ranks the experts, only down to this CTA's slot, unless others decide what it takes: each place takes 0.3 us.
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(blockIdx.y);
  const bool ranks = threadIdx.x < 32;
  Ranking ranking(ranks ? args.router.rows : 0, [&](int e) { return logits[e]; });
  float logit = -INFINITY;  // of the slot that is the lane's
  int of_lane = 0;          // its expert
  const auto rank = [&](int from, int to) {
    int expert = 0;
#pragma unroll 1  // as in rank_for_cta()
    for (int k = from; k < to; ++k) {
      const Ranking::Place place = ranking.next();
      if (lane == k) logit = place.logit;
      if (!has_all && lane == k) of_lane = place.expert;
      expert = place.expert;
    }
    return expert;
  };
  if (ranks) {
    const int expert = rank(0, has_all ? slot + 1 : args.experts_per_token);
    const SlotPart part = has_all ? SlotPart{slot, expert, 0, 1} : part_of_slots(args.own, of_lane);
    if (lane == 0) taken = part;
  }
  __syncthreads();
  if (timestamps.middle && threadIdx.x == 0) atomicMax(timestamps.middle, now_ns());
  const SlotPart part = has_all ? SlotPart{slot, taken.expert, 0, 1} : taken;
  const auto pass_on = [&] {
    if (!ranks || blockIdx.x > 0) return;
    if (has_all) rank(slot + 1, args.experts_per_token);
    const int expert = has_all ? part.expert : of_lane;
    const float weight = weight_of_place(logit);
    if (lane != slot) return;
    args.routing.weights[slot] = has_all || args.own.has(expert) ? weight : 0;
    publish(args.routing.experts + slot, tag, static_cast<uint32_t>(expert));
  };
  if (part.num_rows == 0) return pass_on();
  const Share share =
      has_all ? of_row : share_of_strips(weights, weights.num_strips, part.row, part.num_rows);
  const Group group{part.expert, 1, nullptr, 0, part.slot};
  auto epilogue = up_epilogue<warps>(args.up, piece_of_slot(share), group, args.gated);
  ExpertStream<warps, OneMatrix> stream(weights, {weights.data + group.expert * weights.matrix_bytes()},
                                        share.first, share.last, shared.ring);
  stream.start_prefetch();
  stream.fill_ring();
  pass_on();
  epilogue.run(stream, cols, shared);
}

// The same of two tokens. Every CTA ranks the experts of both, and the strips of all groups are shared: which experts these are decides what
// a CTA has. Both norms stay in shared memory, so that nothing is loaded from one group to the next.
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
  const RouterSegment segment(args.router, unit);
  const uint32_t tag = tag_of(args.routing);
  const float bias =
      thread % kMaxExperts < args.router.rows ? load_now(args.router_bias + thread % kMaxExperts) : 0;
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, kTokens);
  wait_for_predecessor(timestamps);
  let_successor_start();
  NormInput norm = args.norm;
  norm.residual.experts = nullptr;  // which the compiler so knows
  norm_weights.template load<kTokens>(
      norm, kTokens, [](int column) { return column; }, shared.activations, stride,
      [&](int column, int i, float4 x, uint2) {
        if (cta == 0) reinterpret_cast<float4*>(args.x)[column * (cols / 4) + i] = x;
      });
  auto* const sums = reinterpret_cast<float*>(shared.ring);
  float* const logits = sums + kTokens * args.router.num_strips * args.router.num_segments * kStripRows;
  gather_logits<warps, kTokens>(args, segment, unit, tag, bias, {shared.activations, stride, kTokens}, sums,
                                logits);
  __shared__ int chosen[kTokens * kMaxExpertsPerToken];
  if (const int token = thread / 32; token < kTokens)
    rank_for_cta(
        args.router.rows, K, args.own, token, [&](int e) { return logits[token * kMaxExperts + e]; },
        args.routing, tag, cta == 0, chosen);
  __syncthreads();
  if (timestamps.middle && thread == 0) atomicMax(timestamps.middle, now_ns());
  const Groups none{};
  const GroupTable table(none, kTokens * K, [&](int pair) { return number_of(args.own, chosen[pair]); });
  const Share share = share_of_groups(weights, table.count());
  ExpertStream<warps, GroupMatrices> stream(weights, {weights, table}, share.first, share.last, shared.ring);
  for (int from = share.first; from < share.last;) {
    const Piece piece = piece_from(weights, share, from);
    const Group group = table.group(piece.group);
    auto epilogue = up_epilogue<warps>(args.up, piece, group, args.gated);
    if (from == share.first) {
      stream.start_prefetch();
      stream.fill_ring();
    }
    CtaMemory of_group = shared;  // one token's norm or, from the first on, both
    of_group.activations += group.pair(0) / K * stride;
    epilogue.run(stream, cols, of_group);
    from = piece.last;
  }
}

template <int warps, bool is_single, bool has_all>
__global__ void __launch_bounds__(32 * warps, 1)
    experts_down_kernel(const __grid_constant__ ExpertsDownArgs args, int pass_columns,
                        Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.weights;
  const int cols = args.intermediate;
  int slot = static_cast<int>(blockIdx.y);
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, pass_columns);
  float single_weight = 0;
  __shared__ float weights_of_pairs[kMatchedPairs];
  // Whether the launch before this one has chosen the experts; then the groups are found here.
  const bool has_mailbox = args.routing.experts;
  const int num_pairs = args.num_tokens * args.experts_per_token;
  const auto weight_of = [&](int pair) {
    if (is_single) return single_weight;
    return has_mailbox ? weights_of_pairs[pair] : __ldcg(args.groups.weight + pair);
  };
  const auto row_at = [](const Group& group) { return [&group](int column) { return group.pair(column); }; };
  RowPrefetch<warps> rows;
  const auto ask_for_rows = [&](const Group& group) {
    rows.prefetch(args.gated, cols, group.count, row_at(group));
  };
  // `ask_for_next` is called when this piece's rows are in their place.
  const auto run = [&](auto& stream, const Piece& piece, const Group& group, bool is_first,
                       const auto& ask_for_next) {
    auto epilogue = down_epilogue<warps>(args, piece, group, weight_of);
    if (is_first) {
      stream.start_prefetch();
      wait_for_predecessor(timestamps);
      let_successor_start();
      ask_for_rows(group);
      if (is_single) single_weight = __ldcg(args.routing.weights + slot);
      if (!is_single && has_mailbox && static_cast<int>(threadIdx.x) < num_pairs)
        weights_of_pairs[threadIdx.x] = __ldcg(args.routing.weights + threadIdx.x);
      stream.fill_ring();
    }
    rows.store(args.gated, cols, group.count, row_at(group), shared.activations, activation_stride(cols));
    ask_for_next();
    epilogue.run(stream, cols, shared);
  };
  if constexpr (is_single) {
    Share share = share_of_strips(weights, weights.num_strips);
    // route_and_experts_up publishes its choice long before it ends: the weights are requested before the activations are there.
    const auto chosen = [&](int of_slot) {
      return static_cast<int>(wait_for(args.routing.experts + of_slot, tag_of(args.routing)));
    };
    __shared__ SlotPart taken;
    if constexpr (has_all) {
      if (threadIdx.x == 0) taken.expert = chosen(slot);
    } else if (threadIdx.x < 32) {
      const SlotPart part = part_of_slots(args.own, threadIdx.x < gridDim.y ? chosen(threadIdx.x) : 0);
      if (threadIdx.x == 0) taken = part;
    }
    __syncthreads();
    if constexpr (!has_all) {
      if (taken.num_rows == 0) return wait_for_predecessor(timestamps);
      slot = taken.slot;
      share = share_of_strips(weights, weights.num_strips, taken.row, taken.num_rows);
    }
    const int expert = taken.expert;
    ExpertStream<warps, OneMatrix> stream(weights, {weights.data + expert * weights.matrix_bytes()},
                                          share.first, share.last, shared.ring);
    run(stream, piece_of_slot(share), {expert, 1, nullptr, 0, slot}, true, [] {});
  } else {
    __shared__ int chosen_of_pairs[kMatchedPairs];
    const auto thread = static_cast<int>(threadIdx.x);
    if (has_mailbox) {
      if (thread < num_pairs)
        chosen_of_pairs[thread] =
            static_cast<int>(wait_for(args.routing.experts + thread, tag_of(args.routing)));
      __syncthreads();
    }
    const GroupTable table =
        has_mailbox ? GroupTable(args.groups, num_pairs,
                                 [&](int pair) { return number_of(args.own, chosen_of_pairs[pair]); })
                    : GroupTable(args.groups, args.max_groups);
    const Share share = share_of_groups(weights, table.count());
    ExpertStream<warps, GroupMatrices> stream(weights, {weights, table}, share.first, share.last,
                                              shared.ring);
    for (int from = share.first; from < share.last;) {
      const Piece piece = piece_from(weights, share, from);
      run(stream, piece, table.group(piece.group), from == share.first, [&] {
        if (piece.last < share.last) ask_for_rows(table.group(piece.group + 1));
      });
      from = piece.last;
    }
    // The launch must not end before the one in front of it, even where no pair's expert is here.
    if (share.first == share.last) wait_for_predecessor(timestamps);
  }
}

// The slots of a single token share the multiprocessors.
dim3 grid_for_slots(const Target& target, const Strips& weights, int num_slots) {
  const int share = std::max(1, target.num_multiprocessors / num_slots);
  return {static_cast<unsigned>(std::min(share, weights.num_strips)), static_cast<unsigned>(num_slots)};
}
dim3 grid_for_groups(const Target& target, const Strips& weights, int max_groups) {
  return {static_cast<unsigned>(std::min(target.num_multiprocessors, max_groups * weights.num_strips))};
}
// The most units that a CTA takes of one expert, where all CTAs share so many strips.
int units_of_cta(const dim3& grid, const Strips& weights, unsigned num_strips) {
  const auto strips = static_cast<int>(num_strips / (grid.x * grid.y)) + 1;
  return std::min(strips, weights.num_strips) * weights.num_segments;
}
unsigned strips_of_slots(const Strips& weights, int num_slots) {
  return static_cast<unsigned>(num_slots * weights.num_strips);
}

int num_router_units(const Strips& router) { return router.num_strips * router.num_segments; }

}  // namespace

void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  ExpertsUpArgs launched = args;
  const Strips& weights = args.up.weights;
  const dim3 grid = grid_for_groups(gpu.target, weights, args.max_groups);
  const int columns = std::min(args.groups.size, args.num_tokens);
  const StreamShape shape = stream_shape(gpu.target.budget, weights, args.up.hidden, columns,
                                         units_of_cta(grid, weights, num_places(weights, args.max_groups)));
  NIBBLE_CHECK(shape.columns == columns, "{} of {} pairs fit", shape.columns, columns);
  launched.up.weights = shape.strips(weights, grid.x);
  launch(gpu, {Operation::kExpertsUp, "experts_up"},
         shape.of.warps == 8 ? experts_up_kernel<8> : experts_up_kernel<16>, alone(shape, grid), launched,
         shape.columns);
}
namespace {
// The launch of two tokens: the shape that it has, and the CTAs that share the groups' strips.
dim3 grid_for_two(const Target& target, const Strips& up, int experts_per_token) {
  return grid_for_groups(target, up, 2 * experts_per_token);
}
StreamShape shape_for_two(const Target& target, const Strips& up, int hidden, int experts_per_token) {
  const dim3 grid = grid_for_two(target, up, experts_per_token);
  return stream_shape(target.budget, up, hidden, 2,
                      units_of_cta(grid, up, num_places(up, 2 * experts_per_token)));
}
bool has_route_and_experts_up_of_two(const Target& target, const Strips& router, const Strips& up, int hidden,
                                     int experts_per_token) {
  const StreamShape shape = shape_for_two(target, up, hidden, experts_per_token);
  const int num_ctas = static_cast<int>(grid_for_two(target, up, experts_per_token).x),
            units = num_router_units(router);
  return shape.columns == 2 &&
         2 * (static_cast<size_t>(units) * unit_bytes(1) + kMaxExperts * sizeof(float)) <=
             ring_bytes(up.layout, shape.of) &&
         units <= num_ctas * shape.of.warps;
}
}  // namespace

bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token) {
  const dim3 grid = grid_for_slots(target, up, experts_per_token);
  const int num_ctas = static_cast<int>(grid.x * grid.y), units = num_router_units(router);
  const StreamShape shape = stream_shape(target.budget, up, hidden, 1,
                                         units_of_cta(grid, up, strips_of_slots(up, experts_per_token)));
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
    const dim3 grid = grid_for_two(gpu.target, weights, args.experts_per_token);
    const StreamShape shape = shape_for_two(gpu.target, weights, args.up.hidden, args.experts_per_token);
    launched.up.weights = shape.strips(weights, grid.x);
    return launch(
        gpu, kLabel,
        shape.of.warps == 8 ? route_two_and_experts_up_kernel<8> : route_two_and_experts_up_kernel<16>,
        alone(shape, grid), launched);
  }
  const dim3 grid = grid_for_slots(gpu.target, weights, args.experts_per_token);
  const StreamShape shape =
      stream_shape(gpu.target.budget, weights, args.up.hidden, 1,
                   units_of_cta(grid, weights, strips_of_slots(weights, args.experts_per_token)));
  launched.up.weights = shape.strips(weights, grid.x);
  launch(gpu, kLabel,
         args.own.count == args.router.rows ? shape.of.warps == 8 ? route_and_experts_up_kernel<8, true>
                                                                  : route_and_experts_up_kernel<16, true>
         : shape.of.warps == 8 ? route_and_experts_up_kernel<8, false>
                                            : route_and_experts_up_kernel<16, false>,
         alone(shape, grid), launched);
}
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  ExpertsDownArgs launched = args;
  const bool is_single = args.num_tokens == 1;
  const dim3 grid = is_single ? grid_for_slots(gpu.target, args.weights, args.max_groups)
                              : grid_for_groups(gpu.target, args.weights, args.max_groups);
  const int columns = is_single ? 1 : std::min(args.groups.size, args.num_tokens);
  const unsigned strips =
      is_single ? strips_of_slots(args.weights, args.max_groups) : num_places(args.weights, args.max_groups);
  const StreamShape shape = stream_shape(gpu.target.budget, args.weights, args.intermediate, columns,
                                         units_of_cta(grid, args.weights, strips));
  NIBBLE_CHECK(shape.columns == columns, "{} of {} pairs fit", shape.columns, columns);
  launched.weights = shape.strips(args.weights, grid.x);
  const bool has_all = args.own.count == args.num_experts;
  const auto kernel = [&](auto w) {
    constexpr int warps = decltype(w)::value;
    if (!is_single) return experts_down_kernel<warps, false, true>;
    return has_all ? experts_down_kernel<warps, true, true> : experts_down_kernel<warps, true, false>;
  };
  launch(gpu, {Operation::kExpertsDown, "experts_down"},
         shape.of.warps == 8 ? kernel(std::integral_constant<int, 8>())
                             : kernel(std::integral_constant<int, 16>()),
         alone(shape, grid), launched, shape.columns);
}

void prepare_experts() {
  allow_all_shared_bytes(experts_up_kernel<8>);
  allow_all_shared_bytes(experts_up_kernel<16>);
  allow_all_shared_bytes(route_and_experts_up_kernel<8, true>);
  allow_all_shared_bytes(route_and_experts_up_kernel<8, false>);
  allow_all_shared_bytes(route_and_experts_up_kernel<16, true>);
  allow_all_shared_bytes(route_and_experts_up_kernel<16, false>);
  allow_all_shared_bytes(route_two_and_experts_up_kernel<8>);
  allow_all_shared_bytes(route_two_and_experts_up_kernel<16>);
  allow_all_shared_bytes(experts_down_kernel<8, true, true>);
  allow_all_shared_bytes(experts_down_kernel<8, true, false>);
  allow_all_shared_bytes(experts_down_kernel<8, false, true>);
  allow_all_shared_bytes(experts_down_kernel<16, true, true>);
  allow_all_shared_bytes(experts_down_kernel<16, true, false>);
  allow_all_shared_bytes(experts_down_kernel<16, false, true>);
}

}  // namespace nibble::cuda
