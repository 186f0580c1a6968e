// The experts' matrix products: up (with SwiGLU) and down. A block works for one group: one expert, up to 8 pairs of token and
// slot. A single token makes one group for each of its experts, and they share the multiprocessors.
#include <algorithm>

#include "backend/cuda/choice.cuh"
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"

namespace nibble::cuda {
namespace {

constexpr float kSwigluAlpha{1.702f};

// The pairs of this block's group and their expert.
struct Group {
  int expert, count;  // count 0: there is nothing to do
  const int* pairs;   // null: the slot of a single token
  int slot;
  float single_weight;  // of a single token's pair

  __device__ int pair(int column) const { return pairs ? __ldcg(pairs + column) : slot; }
};

// One warp chooses for its block: all of them would only be in each other's way.
__device__ Group group_of(const Groups& groups, int num_tokens) {
  const int index = static_cast<int>(blockIdx.y);
  if (num_tokens == 1) {
    __shared__ int chosen;
    __shared__ float weight;
    if (threadIdx.x < 32) {
      const Choice choice(groups.logits, groups.num_experts, groups.experts_per_token);
#pragma unroll
      for (int k = 0; k < kMaxExpertsPerToken; ++k)
        if (k == index && threadIdx.x == 0) {
          chosen = choice.experts[k];
          weight = choice.weights[k];
        }
    }
    __syncthreads();
    return {chosen, 1, nullptr, index, weight};
  }
  if (index >= __ldcg(groups.count)) return {0, 0, nullptr, 0, 0};
  return {__ldcg(groups.expert + index), __ldcg(groups.num_pairs + index), groups.pairs + index * kMaxColumns,
          0, 0};
}

// A block's strips of its group's expert, streamed past the group's rows of `activations`; take(from, end, group, partials) has the
// sums of the units [from, end). `groups_are_known`: routing was there before the kernel before this one began to work, so that
// weights may be asked for before the activations are there. Otherwise activations go first: what is asked for behind
// weights waits for them.
struct GroupInput {
  const Strips& weights;
  const Groups& groups;
  int num_tokens;
  const __nv_bfloat16* activations;  // [., cols]
  int cols;
  int pairs_per_row;  // row = pair / pairs_per_row
};
template <bool groups_are_known, typename Take>
__device__ void stream_group(const GroupInput& input, const Take& take) {
  const Strips& weights = input.weights;
  if (!groups_are_known) {
    wait_for_predecessor();
    let_successor_start();
  }
  RowsAhead rows;
  const int single_row = static_cast<int>(blockIdx.y) / input.pairs_per_row;
  if (!groups_are_known && input.num_tokens == 1)
    rows.ask(input.activations, input.cols, 1, [&](int) { return single_row; });
  const Group group = group_of(input.groups, input.num_tokens);
  const int segments = weights.num_segments;
  const auto strip_of = [&](unsigned block) {
    return static_cast<int>(1ll * weights.num_strips * block / gridDim.x);
  };
  const int first = strip_of(blockIdx.x) * segments,
            last = group.count ? strip_of(blockIdx.x + 1) * segments : first;
  const BlockMemory shared = block_memory<Layout::kMxfp4>(input.cols, min(kMaxColumns, input.num_tokens));
  UnitStream<Layout::kMxfp4> stream(weights, weights.data + group.expert * weights.matrix_bytes(), first,
                                    last, shared.ring);
  const auto row_at = [&](int column) { return group.pair(column) / input.pairs_per_row; };
  if (groups_are_known) {
    stream.start();
    wait_for_predecessor();
    let_successor_start();
  }
  if (group.count == 0) return;
  if (groups_are_known || input.num_tokens > 1) rows.ask(input.activations, input.cols, group.count, row_at);
  if (!groups_are_known) stream.start();
  rows.store(input.activations, input.cols, group.count, row_at, kMxfp4ActivationScale, shared.activations,
             activation_stride(input.cols));

  const int capacity = shared.num_partials / (kStripRows * group.count);
  for (int from = first; from < last;) {
    const int end = batch_end(from, last, segments, capacity);
    stream.run(end, {shared.activations, activation_stride(input.cols), group.count}, shared.partials, from);
    __syncthreads();
    take(from, end, group, shared.partials);
    __syncthreads();
    from = end;
  }
}

__global__ void __launch_bounds__(kThreads, 1) up_kernel(const __grid_constant__ UpArgs args) {
  constexpr int kUnits{kStripRows / 2};  // gate and up rows of a strip
  const Strips& weights = args.weights;
  stream_group</*groups_are_known=*/false>(
      {weights, args.groups, args.num_tokens, args.normed, args.hidden, args.groups.experts_per_token},
      [&](int from, int end, const Group& group, const float* partials) {
        const float* bias = args.bias + size_t{2} * group.expert * args.intermediate;
        const int first_strip = from / weights.num_segments, num_strips = (end - from) / weights.num_segments;
        for (int i = static_cast<int>(threadIdx.x); i < num_strips * kUnits * group.count; i += kThreads) {
          const int column = i % group.count, row = i / group.count % kUnits;
          const int strip = first_strip + i / (group.count * kUnits), unit = strip * kUnits + row;
          if (unit >= args.intermediate) continue;
          const float2 biases = reinterpret_cast<const float2*>(bias)[unit];
          const auto sum = [&](int strip_row) {
            return kMxfp4SumScale * sum_segments(partials, from, end, strip, weights.num_segments, strip_row,
                                                 column, group.count);
          };
          const float gate = fminf(sum(row) + biases.x, args.limit);
          const float linear = fminf(fmaxf(sum(row + kUnits) + biases.y, -args.limit), args.limit);
          const float value = gate / (1 + expf(-kSwigluAlpha * gate)) * (linear + 1);
          args.gated[size_t{1} * group.pair(column) * args.intermediate + unit] = __float2bfloat16_rn(value);
        }
      });
}

__global__ void __launch_bounds__(kThreads, 1) down_kernel(const __grid_constant__ DownArgs args) {
  const Strips& weights = args.weights;
  stream_group</*groups_are_known=*/true>(
      {weights, args.groups, args.num_tokens, args.gated, args.intermediate, 1},
      [&](int from, int end, const Group& group, const float* partials) {
        const int first_strip = from / weights.num_segments, num_strips = (end - from) / weights.num_segments;
        for (int i = static_cast<int>(threadIdx.x); i < num_strips * kStripRows * group.count;
             i += kThreads) {
          const int column = i % group.count, strip_row = i / group.count % kStripRows;
          const int strip = first_strip + i / (group.count * kStripRows),
                    row = strip * kStripRows + strip_row;
          if (row >= args.hidden) continue;
          const float sum = kMxfp4SumScale * sum_segments(partials, from, end, strip, weights.num_segments,
                                                          strip_row, column, group.count);
          const int pair = group.pair(column);
          const float weight = group.pairs ? __ldcg(args.groups.weight + pair) : group.single_weight;
          args.out[size_t{1} * pair * args.hidden + row] =
              weight * (sum + args.bias[size_t{1} * group.expert * args.hidden + row]);
        }
      });
}

// Few groups share the multiprocessors, each at least one strip; of many, each gets the fewest blocks that keep all busy.
unsigned blocks_for(const Strips& weights, int max_groups) {
  const int share = std::max(1, device_info().num_multiprocessors / max_groups);
  return static_cast<unsigned>(std::min(share, weights.num_strips));
}

template <typename Args>
void launch_experts(Stream stream, void (*kernel)(Args), int cols, const Args& args) {
  const unsigned blocks = blocks_for(args.weights, args.max_groups);
  const int units = (args.weights.num_strips / static_cast<int>(blocks) + 1) * args.weights.num_segments;
  const size_t bytes = block_bytes<Layout::kMxfp4>(cols, std::min(kMaxColumns, args.num_tokens), units);
  launch(stream, kernel, {dim3(blocks, static_cast<unsigned>(args.max_groups)), kThreads, bytes}, args);
}

}  // namespace

void up(Stream stream, const UpArgs& args) { launch_experts(stream, up_kernel, args.hidden, args); }
void down(Stream stream, const DownArgs& args) {
  launch_experts(stream, down_kernel, args.intermediate, args);
}

void prepare_experts() {
  const size_t most = device_info().max_shared_bytes - 1024;
  allow_shared_bytes(up_kernel, most);
  allow_shared_bytes(down_kernel, most);
}

}  // namespace nibble::cuda
