// experts_up (with SwiGLU) and experts_down of many tokens, by mma.sync. A CTA takes one item at a time: a
// block of rows of an expert, for one group of pairs (of a token and this expert).
#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_items.cuh"
#include "backend/cuda/experts/swiglu.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/bf16_columns.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"

namespace nibble::cuda {
namespace {

using ExpertShape = PromptShape<Layout::kMxfp4>;
static_assert(ExpertShape::kColumns == kManyColumns);

__global__ void __launch_bounds__(ExpertShape::kThreads, 1)
    experts_up_many_kernel(const __grid_constant__ ExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  multiply_groups<ExpertShape>(
      timestamps, {up.weights, {args.normed.data, up.hidden}}, args.groups,
      [&](int pair) { return pair / args.experts_per_token; },
      [&](int expert, int strip, int g) {
        const int unit = strip * (kStripRows / 2) + g;
        const bool is_there = unit < up.intermediate;
        const float2 bias = is_there ? up_bias(up, expert, unit) : float2{};
        return PairSums{[](int) { return 0; },
                        [=, &up, &args](int pair, int, float gate, float linear) {
                          if (is_there)
                            args.gated.data[size_t{1} * pair * up.intermediate + unit] =
                                __float2bfloat16_rn(swiglu(gate + bias.x, linear + bias.y, up.limit));
                        }};
      });
}

__global__ void __launch_bounds__(ExpertShape::kThreads, 1)
    experts_down_many_kernel(const __grid_constant__ ExpertsDownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_groups<ExpertShape>(
      timestamps, {args.weights, {args.gated.data, args.intermediate}}, args.groups,
      [](int pair) { return pair; },
      [&](int expert, int strip, int g) { return take_down(args, expert, strip, g); });
}

}  // namespace

void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  launch(gpu, {Operation::kExpertsUp, "experts_up"}, experts_up_many_kernel,
         group_shape<ExpertShape>(gpu.target, args.up.weights, args.max_groups), args);
}
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  launch(gpu, {Operation::kExpertsDown, "experts_down"}, experts_down_many_kernel,
         group_shape<ExpertShape>(gpu.target, args.weights, args.max_groups), args);
}

void prepare_prompt_experts() {
  allow_shared_bytes(experts_up_many_kernel, ExpertShape::kBytes);
  allow_shared_bytes(experts_down_many_kernel, ExpertShape::kBytes);
}

}  // namespace nibble::cuda
