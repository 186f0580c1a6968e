// The experts' products of many tokens: up (with SwiGLU) and down, group by group.
#include <algorithm>

#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/pipeline.cuh"

namespace nibble::cuda {
namespace {

using ExpertShape = PromptShape<Layout::kMxfp4>;
static_assert(ExpertShape::kColumns == kManyColumns);

constexpr int row_blocks(const Strips& weights) {
  return (weights.num_strips + ExpertShape::kStrips - 1) / ExpertShape::kStrips;
}

// Items of the experts: groups, and blocks of rows of the group's expert. The blocks of a group follow each other, so that memory
// delivers its activations once, and each strip once or, where an expert has several groups, soon again. `first_column` is the place of
// the group's pairs.
template <typename RowOf>
struct GroupItems {
  const Groups& groups;
  const RowOf& row_of;  // the row of the activations of a pair
  int num_row_blocks, num_items;

  __device__ GroupItems(const Groups& all, const Strips& weights, const RowOf& row)
      : groups(all),
        row_of(row),
        num_row_blocks(row_blocks(weights)),
        num_items(__ldcg(all.count) * num_row_blocks) {}
  __device__ int count() const { return num_items; }
  __device__ PromptItem at(int index) const {
    const int group = index / num_row_blocks;
    return {__ldcg(groups.expert + group), index % num_row_blocks * ExpertShape::kStrips, group * groups.size,
            __ldcg(groups.num_pairs + group)};
  }
  __device__ int pair(const PromptItem& item, int column) const {
    return __ldcg(groups.pairs + item.first_column + column);
  }
  __device__ int row(const PromptItem& item, int column) const { return row_of(pair(item, column)); }
};

// Multiplies the groups' pairs with their experts' strips. begin(expert, strip, g) returns what takes the sums of rows g and
// g + 8 of a strip: take(pair, upper, lower).
template <typename RowOf, typename Begin>
__device__ void multiply_groups(const Timestamps& timestamps, const Strips& weights, const Groups& groups,
                                const __nv_bfloat16* activations, int cols, const RowOf& row_of,
                                const Begin& begin) {
  wait_for_predecessor(timestamps);
  let_successor_start();
  const GroupItems<RowOf> items(groups, weights, row_of);
  multiply_items<Layout::kMxfp4>(
      weights, activations, cols, items, 0,
      [&](const PromptItem& item, int strip, int, bool, const auto& sums) {
        const int g = static_cast<int>(threadIdx.x) % 32 / 4;
        const int* pairs = groups.pairs + item.first_column + first_column_of_lane<Layout::kMxfp4>();
        const auto take = begin(item.matrix, strip, g);
        for_each_column<Layout::kMxfp4>(
            item, sums, [&](int i, float upper, float lower) { take(__ldcg(pairs + i), upper, lower); });
      });
}

__global__ void __launch_bounds__(ExpertShape::kThreads, 1)
    up_many_kernel(const __grid_constant__ UpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  multiply_groups(
      timestamps, up.weights, args.groups, args.normed, up.hidden,
      [&](int pair) { return pair / args.experts_per_token; },
      [&](int expert, int strip, int g) {
        const int unit = strip * (kStripRows / 2) + g;
        const bool is_there = unit < up.intermediate;
        const float2 bias =
            is_there ? reinterpret_cast<const float2*>(up.bias + size_t{2} * expert * up.intermediate)[unit]
                     : float2{};
        return [=, &up, &args](int pair, float gate, float linear) {
          if (is_there)
            args.gated[size_t{1} * pair * up.intermediate + unit] =
                __float2bfloat16_rn(swiglu(gate + bias.x, linear + bias.y, up.limit));
        };
      });
}

__global__ void __launch_bounds__(ExpertShape::kThreads, 1)
    down_many_kernel(const __grid_constant__ DownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_groups(
      timestamps, args.weights, args.groups, args.gated, args.intermediate, [](int pair) { return pair; },
      [&](int expert, int strip, int g) {
        const int row = strip * kStripRows + g;
        const float* bias = args.bias + size_t{1} * expert * args.hidden + row;
        const bool has_upper = row < args.hidden, has_lower = row + 8 < args.hidden;
        const float upper_bias = has_upper ? bias[0] : 0, lower_bias = has_lower ? bias[8] : 0;
        return [=, &args](int pair, float upper, float lower) {
          const float weight = __ldcg(args.groups.weight + pair);
          float* out = args.out + size_t{1} * pair * args.hidden + row;
          if (has_upper) out[0] = weight * (upper + upper_bias);
          if (has_lower) out[8] = weight * (lower + lower_bias);
        };
      });
}

LaunchShape shape_for(const Target& target, const Strips& weights, int max_groups) {
  const int items = max_groups * row_blocks(weights);
  return {dim3(static_cast<unsigned>(std::min(items, target.num_multiprocessors))), ExpertShape::kThreads,
          ExpertShape::kBytes};
}

}  // namespace

void up_many(const LaunchContext& gpu, const UpArgs& args) {
  launch(gpu, {Operation::kExpertsUp, "up"}, up_many_kernel,
         shape_for(gpu.target, args.up.weights, args.max_groups), args);
}
void down_many(const LaunchContext& gpu, const DownArgs& args) {
  launch(gpu, {Operation::kExpertsDown, "down"}, down_many_kernel,
         shape_for(gpu.target, args.weights, args.max_groups), args);
}

void prepare_prompt_experts() {
  allow_shared_bytes(up_many_kernel, ExpertShape::kBytes);
  allow_shared_bytes(down_many_kernel, ExpertShape::kBytes);
}

}  // namespace nibble::cuda
