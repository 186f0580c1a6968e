// experts_up (with SwiGLU) and experts_down for few tokens. If the step has few pairs (are_matched()),
// experts_up also chooses the experts.
#include <algorithm>
#include <type_traits>

#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_rows.cuh"
#include "backend/cuda/experts/group_stream.cuh"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/experts/pass_routing.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

// The kernel of experts_up(). `ranks`: whether the step has few pairs (are_matched()). If so, each CTA
// chooses all tokens' experts itself and, before it knows its groups, loads the activations of all tokens to
// shared memory.
template <int warps, bool ranks>
__global__ void __launch_bounds__(32 * warps, 1)
    experts_up_kernel(const __grid_constant__ ExpertsUpArgs args, int pass_columns, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.up.weights;
  const int cols = args.up.hidden, stride = activation_stride(cols), K = args.experts_per_token,
            num_pairs = args.num_tokens * K;
  const CtaMemory shared = cta_memory<Layout::kMxfp4, warps, kExpertSlots>(cols, pass_columns);
  const auto ring = ring_of_warp<Layout::kMxfp4, kExpertSlots>(shared.ring);
  __shared__ int chosen[kMatchedPairs];
  const RowMatrix normed{args.normed.data, cols};
  wait_for_predecessor(timestamps);
  let_successor_start();
  if constexpr (ranks) {
    const auto thread = static_cast<int>(threadIdx.x), token = thread / 32;
    if (token < args.num_tokens)
      choose_experts(
          {args.num_experts, K, args.own, args.routing, tag_of(args.routing), blockIdx.x == 0}, token,
          [&](int expert) { return __ldcg(args.logits + size_t{1} * token * args.num_experts + expert); },
          chosen);
    // Warps that choose no experts load the activations. If every warp chooses experts, all warps load.
    const int first = args.num_tokens < warps ? 32 * args.num_tokens : 0;
    if (thread >= first)
      prefetch_rows(normed, {shared.activations, stride, args.num_tokens},
                    {thread - first, 32 * warps - first});
    __syncthreads();
  }
  const auto expert_of = [&](int pair) { return number_of(args.own, chosen[pair]); };
  const GroupTable table =
      ranks ? GroupTable(args.groups, num_pairs, expert_of) : GroupTable(args.groups, args.max_groups);
  const UnitRange share = share_of_groups(weights, table.count());
  // A CTA without strips has nothing to multiply, but must wait for the copies that it has started.
  if (ranks && share.first == share.last) return wait_for_rows();
  ExpertStream<warps, GroupMatrices> stream(weights, {weights, table}, share.first, share.last, ring);
  RowPrefetch<warps> rows;
  const auto row_at = [&](const Group& group) { return [&](int column) { return group.pair(column) / K; }; };
  for (int from = share.first; from < share.last;) {
    const GroupUnits units = units_from(weights, share, from);
    const Group group = table.group(units.group);
    const bool is_first = from == share.first;
    // The activations are requested first: otherwise their loads would queue after those of the weights.
    if (!ranks && is_first) rows.prefetch(normed, group.count, row_at(group));
    if (is_first) {
      stream.start_prefetch();
      stream.fill_ring();
    }
    auto epilogue = up_epilogue<warps>(args.up, units, group, args.gated.data);
    if constexpr (ranks) {
      if (is_first) wait_for_rows();
      epilogue.run(stream, columns_of(group, K, shared.activations, stride), shared);
    } else {
      rows.store(normed, row_at(group), {shared.activations, stride, group.count});
      if (units.last < share.last) {
        const Group next = table.group(units.group + 1);
        rows.prefetch(normed, next.count, row_at(next));
      }
      epilogue.run(stream, {shared.activations, stride, group.count}, shared);
    }
    from = units.last;
  }
}

// Returns the epilogue of experts_down, which adds the bias and multiplies by the pair's weight.
template <int warps, typename WeightOf>
__device__ auto down_epilogue(const ExpertsDownArgs& args, const GroupUnits& units, const Group& group,
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
  return Epilogue<kStripRows, warps, decltype(prepare), decltype(take)>(args.weights, units, group.count,
                                                                        prepare, take);
}

// The state of a CTA of experts_down(), which multiplies one group after another. The comment of
// experts_down_kernel() explains the template parameters.
template <int warps, bool is_single, bool has_two>
class DownCta {
 public:
  // `weights_of_pairs`: shared memory for the router's weights of all pairs. It is used only if the routing
  // arrives in a mailbox.
  __device__ DownCta(const ExpertsDownArgs& of, int pass_columns, const Timestamps& of_launch,
                     float* weights_of_pairs)
      : args(of),
        timestamps(of_launch),
        slot(static_cast<int>(blockIdx.y)),
        shared_(cta_memory<Layout::kMxfp4, warps, kExpertSlots>(of.intermediate,
                                                                (has_two ? 2 : 1) * pass_columns)),
        weights_of_pairs_(weights_of_pairs),
        ring_(ring_of_warp<Layout::kMxfp4, kExpertSlots>(shared_.ring, RingLater())),
        rows_({of.gated.data, of.intermediate}, shared_.activations, pass_columns) {
    if (!polls()) ring_.init();
  }

  const ExpertsDownArgs& args;
  const Timestamps& timestamps;
  int slot;  // only for a single token: index of this CTA's expert among the token's chosen experts

  // Returns whether this warp polls for the experts of a single token. The polling warp calls init_ring()
  // only after polling, to poll as early as possible; the other warps initialize their rings in the
  // constructor.
  __device__ bool polls() const { return is_single && threadIdx.x < 32; }
  __device__ void init_ring() const { ring_.init(); }
  // Returns whether the routing arrives in a mailbox. If so, this kernel forms the groups itself.
  __device__ bool has_mailbox() const { return has_two || args.routing.experts; }
  __device__ int num_pairs() const { return args.num_tokens * args.experts_per_token; }

  template <typename Matrices>
  __device__ ExpertStream<warps, Matrices> stream(const Matrices& matrices, const UnitRange& share) const {
    return {args.weights, matrices, share.first, share.last, ring_};
  }
  __device__ void prefetch_rows(const Group& group) { rows_.prefetch(group); }
  // Multiplies a group (pairs of one expert) with the CTA's units, which are segments of the expert's strips.
  // If the group is the CTA's first, prefetches weights and then waits for the previous launch. Calls
  // prefetch_next() once the group's activations have arrived.
  template <typename Stream, typename PrefetchNext>
  __device__ void multiply(Stream& stream, const GroupUnits& units, const Group& group, bool is_first,
                           const PrefetchNext& prefetch_next) {
    if (is_first) stream.start_prefetch();
    auto epilogue = down_epilogue<warps>(args, units, group, [this](int pair) { return weight_of(pair); });
    if (is_first) {
      wait_for_predecessor(timestamps);
      let_successor_start();
      prefetch_rows(group);
      if (is_single) single_weight_ = __ldcg(args.routing.weights + slot);
      if (!is_single && has_mailbox() && static_cast<int>(threadIdx.x) < num_pairs())
        weights_of_pairs_[threadIdx.x] = __ldcg(args.routing.weights + threadIdx.x);
      stream.fill_ring();
    }
    const Columns columns = rows_.take(group);
    prefetch_next();
    epilogue.run(stream, columns, shared_);
  }

 private:
  using RingLater = typename Ring<Layout::kMxfp4, kExpertSlots>::Later;

  __device__ float weight_of(int pair) const {
    if (is_single) return single_weight_;
    return has_mailbox() ? weights_of_pairs_[pair] : __ldcg(args.groups.weight + pair);
  }

  const CtaMemory shared_;
  float* const weights_of_pairs_;
  float single_weight_{0};
  const Ring<Layout::kMxfp4, kExpertSlots> ring_;
  GroupRows<warps, has_two> rows_;
};

// Computes experts_down() of one token. Requests weights as soon as route_and_experts_up() has published the
// chosen experts.
template <bool has_all, typename Cta>
__device__ void multiply_token(Cta& cta, const TurnShares& shares) {
  const ExpertsDownArgs& args = cta.args;
  const Strips& weights = args.weights;
  const auto chosen = [&](int of_slot) {
    return static_cast<int>(wait_for(args.routing.experts + of_slot, tag_of(args.routing)));
  };
  UnitRange share{};
  __shared__ SlotWork taken;
  __shared__ unsigned turn;
  if constexpr (has_all) {
    if (threadIdx.x == 0) {
      // The atomic is issued before the poll, so that both are in flight at the same time.
      const unsigned own_turn = atomicInc(args.turns + cta.slot, gridDim.x - 1);
      taken.expert = chosen(cta.slot);
      turn = own_turn;
    }
  } else if (threadIdx.x < 32) {
    const SlotWork work = work_of_slots(args.own, threadIdx.x < gridDim.y ? chosen(threadIdx.x) : 0);
    if (threadIdx.x == 0) taken = work;
  }
  __syncthreads();
  if (cta.polls()) cta.init_ring();
  if constexpr (!has_all) {
    if (taken.num_rows == 0) return wait_for_predecessor(cta.timestamps);
    cta.slot = taken.slot;
    share = share_of_strips(weights, weights.num_strips, taken.row, taken.num_rows);
  } else {
    const auto first = [&](unsigned of) {
      return static_cast<int>(shares.first(static_cast<unsigned>(weights.num_strips), of)) *
             weights.num_segments;
    };
    share = {first(turn), first(turn + 1)};
  }
  const int expert = taken.expert;
  auto stream = cta.stream(OneMatrix{weights.data + expert * weights.matrix_bytes()}, share);
  cta.multiply(stream, units_of_slot(share), {expert, 1, nullptr, 0, cta.slot}, true, [] {});
}

// Computes experts_down() of several tokens.
template <int warps, typename Cta>
__device__ void multiply_groups(Cta& cta, const TurnShares& shares) {
  const ExpertsDownArgs& args = cta.args;
  const Strips& weights = args.weights;
  __shared__ int chosen_of_pairs[kMatchedPairs];
  const auto thread = static_cast<int>(threadIdx.x);
  __shared__ unsigned turn;
  if (cta.has_mailbox()) {
    if (thread == 32 * warps - 1) turn = atomicInc(args.turns, gridDim.x - 1);
    if (thread < cta.num_pairs())
      chosen_of_pairs[thread] =
          static_cast<int>(wait_for(args.routing.experts + thread, tag_of(args.routing)));
    __syncthreads();
  }
  const GroupTable table =
      cta.has_mailbox() ? GroupTable(args.groups, cta.num_pairs(),
                                     [&](int pair) { return number_of(args.own, chosen_of_pairs[pair]); })
                        : GroupTable(args.groups, args.max_groups);
  const auto first = [&](unsigned of) {
    return first_strip_at(weights, shares.first(num_places(weights, table.count()), of)) *
           weights.num_segments;
  };
  const UnitRange share =
      cta.has_mailbox() ? UnitRange{first(turn), first(turn + 1)} : share_of_groups(weights, table.count());
  auto stream = cta.stream(GroupMatrices{weights, table}, share);
  for (int from = share.first; from < share.last;) {
    const GroupUnits units = units_from(weights, share, from);
    cta.multiply(stream, units, table.group(units.group), from == share.first, [&] {
      if (units.last < share.last) cta.prefetch_rows(table.group(units.group + 1));
    });
    from = units.last;
  }
  // A CTA without strips must also wait. If no CTA had strips and none waited, this launch could end before
  // the previous one. The next launch waits only for the end of this launch, so it would continue too early.
  if (share.first == share.last) wait_for_predecessor(cta.timestamps);
}

// The kernel of experts_down(). `is_single`: whether the step has one token. `has_all`: whether this rank
// holds all experts. `has_two`: whether shared memory holds the activations of two groups (GroupRows); only
// with several tokens whose routing arrives in a mailbox.
template <int warps, bool is_single, bool has_all, bool has_two>
__global__ void __launch_bounds__(32 * warps, 1)
    experts_down_kernel(const __grid_constant__ ExpertsDownArgs args, TurnShares shares, int pass_columns,
                        Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ float weights_of_pairs[kMatchedPairs];
  DownCta<warps, is_single, has_two> cta(args, pass_columns, timestamps, weights_of_pairs);
  if constexpr (is_single)
    multiply_token<has_all>(cta, shares);
  else
    multiply_groups<warps>(cta, shares);
}

template <typename F>
void with_cta_warps(int warps, const F& f) {
  warps == 8 ? f(std::integral_constant<int, 8>()) : f(std::integral_constant<int, 16>());
}
template <typename F>
void with_up_kernel(int warps, bool ranks, const F& f) {
  with_cta_warps(warps,
                 [&](auto w) { f(ranks ? experts_up_kernel<w(), true> : experts_up_kernel<w(), false>); });
}
template <typename F>
void with_down_kernel(int warps, bool is_single, bool has_all, bool has_two, const F& f) {
  with_cta_warps(warps, [&](auto w) {
    if (!is_single)
      f(has_two ? experts_down_kernel<w(), false, true, true> : experts_down_kernel<w(), false, true, false>);
    else
      f(has_all ? experts_down_kernel<w(), true, true, false> : experts_down_kernel<w(), true, false, false>);
  });
}

}  // namespace

void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  ExpertsUpArgs launched = args;
  const Strips& weights = args.up.weights;
  const int columns = std::min(args.groups.size, args.num_tokens);
  const ExpertsUpLaunch of = experts_up_launch(gpu.target, weights, args.up.hidden, columns, args.max_groups);
  const StreamShape& shape = of.stream;
  NIBBLE_CHECK(shape.columns == columns, "{} of {} pairs fit", shape.columns, columns);
  launched.up.weights = shape.strips(weights, of.grid.x);
  with_up_kernel(shape.of.warps, args.routing.experts != nullptr, [&](auto* kernel) {
    launch(gpu, {Operation::kExpertsUp, "experts_up"}, kernel, alone(shape, of.grid), launched,
           shape.columns);
  });
}
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  ExpertsDownArgs launched = args;
  const ExpertsDownLaunch shape =
      experts_down_launch(gpu.target, args.weights, args.intermediate,
                          {args.num_tokens, args.groups.size, args.max_groups,
                           args.routing.experts != nullptr, args.own.count == args.num_experts});
  const int columns = shape.is_single ? 1 : std::min(args.groups.size, args.num_tokens);
  NIBBLE_CHECK(shape.stream.columns == columns, "{} of {} pairs fit", shape.stream.columns, columns);
  launched.weights = shape.stream.strips(args.weights, shape.grid.x);
  with_down_kernel(shape.stream.of.warps, shape.is_single, shape.has_all, shape.has_two, [&](auto* kernel) {
    launch(gpu, {Operation::kExpertsDown, "experts_down"}, kernel, alone(shape.stream, shape.grid), launched,
           shape.shares(), shape.stream.columns);
  });
}

void prepare_experts() {
  const auto allow = [](auto* kernel) { allow_all_shared_bytes(kernel); };
  for (const int warps : {8, 16})
    for (const bool ranks : {true, false}) with_up_kernel(warps, ranks, allow);
  for (const int warps : {8, 16}) {
    for (const bool has_all : {true, false})
      with_down_kernel(warps, /*is_single=*/true, has_all, /*has_two=*/false, allow);
    for (const bool has_two : {false, true})
      with_down_kernel(warps, /*is_single=*/false, /*has_all=*/true, has_two, allow);
  }
}

}  // namespace nibble::cuda
