// The experts' products of many tokens: up (with SwiGLU) and down, group by group.
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/bf16_columns.cuh"
#include "backend/cuda/prompt/group_items.cuh"

namespace nibble::cuda {
namespace {

using ExpertShape = PromptShape<Layout::kMxfp4>;
static_assert(ExpertShape::kColumns == kManyColumns);

// Multiplies the groups' pairs with their experts' strips. begin(expert, strip, g) returns what takes the sums of rows g and
// g + 8 of a strip: take(pair, upper, lower).
template <typename RowOf, typename Begin>
__device__ void multiply_groups(const Timestamps& timestamps, const Strips& weights, const Groups& groups,
                                const Bf16Rows& activations, const RowOf& row_of, const Begin& begin) {
  wait_for_predecessor(timestamps);
  let_successor_start();
  const GroupItems<ExpertShape, RowOf> items(groups, weights, row_of);
  multiply_items<ExpertShape>(
      weights, activations, items, 0, [&](const PromptItem& item, int strip, int, bool, const auto& sums) {
        const int g = static_cast<int>(threadIdx.x) % 32 / 4;
        const int* pairs = groups.pairs + item.first_column + first_column_of_lane<ExpertShape>();
        const auto take = begin(item.matrix, strip, g);
        for_each_column<ExpertShape>(
            item, sums, [&](int i, float upper, float lower) { take(__ldcg(pairs + i), upper, lower); });
      });
}

__global__ void __launch_bounds__(ExpertShape::kThreads, 1)
    up_many_kernel(const __grid_constant__ UpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  multiply_groups(
      timestamps, up.weights, args.groups, {args.normed, up.hidden},
      [&](int pair) { return pair / args.experts_per_token; },
      [&](int expert, int strip, int g) {
        const int unit = strip * (kStripRows / 2) + g;
        const bool is_there = unit < up.intermediate;
        const float2 bias = is_there ? up_bias(up, expert, unit) : float2{};
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
      timestamps, args.weights, args.groups, {args.gated, args.intermediate}, [](int pair) { return pair; },
      [&](int expert, int strip, int g) { return take_down(args, expert, strip, g); });
}

}  // namespace

void up_many(const LaunchContext& gpu, const UpArgs& args) {
  launch(gpu, {Operation::kExpertsUp, "up"}, up_many_kernel,
         group_shape<ExpertShape>(gpu.target, args.up.weights, args.max_groups), args);
}
void down_many(const LaunchContext& gpu, const DownArgs& args) {
  launch(gpu, {Operation::kExpertsDown, "down"}, down_many_kernel,
         group_shape<ExpertShape>(gpu.target, args.weights, args.max_groups), args);
}

void prepare_prompt_experts() {
  allow_shared_bytes(up_many_kernel, ExpertShape::kBytes);
  allow_shared_bytes(down_many_kernel, ExpertShape::kBytes);
}

}  // namespace nibble::cuda
