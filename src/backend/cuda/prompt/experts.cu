// The experts' products of many tokens: experts_up (with SwiGLU) and experts_down, group by group.
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/bf16_columns.cuh"
#include "backend/cuda/prompt/group_items.cuh"
#include "backend/cuda/prompt/wgmma_columns.cuh"
#include "core/check.h"

namespace nibble::cuda {
namespace {

using MmaShape = PromptShape<Layout::kMxfp4>;
template <int columns>
using HopperShape = WgmmaShape<Layout::kMxfp4, columns, 3>;
static_assert(MmaShape::kColumns == kManyColumns);

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    experts_up_many_kernel(const __grid_constant__ ExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  multiply_groups<Shape>(
      timestamps, up.weights, args.groups, {args.normed, up.hidden},
      [&](int pair) { return pair / args.experts_per_token; },
      [&](int expert, int strip, int g) {
        const int unit = strip * (kStripRows / 2) + g;
        const bool is_there = unit < up.intermediate;
        const float2 bias = is_there ? up_bias(up, expert, unit) : float2{};
        const int place = Shape::kIsWgmma ? lane_order(unit) : unit;
        return [=, &up, &args](int pair, float gate, float linear) {
          if (is_there)
            args.gated[size_t{1} * pair * up.intermediate + place] =
                __float2bfloat16_rn(swiglu(gate + bias.x, linear + bias.y, up.limit));
        };
      });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    experts_down_many_kernel(const __grid_constant__ ExpertsDownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_groups<Shape>(
      timestamps, args.weights, args.groups, {args.gated, args.intermediate}, [](int pair) { return pair; },
      [&](int expert, int strip, int g) { return take_down(args, expert, strip, g); });
}

template <typename Shape>
void launch_up(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  launch(gpu, {Operation::kExpertsUp, "experts_up"}, experts_up_many_kernel<Shape>,
         group_shape<Shape>(gpu.target, args.up.weights, args.groups, args.max_groups), args);
}
template <typename Shape>
void launch_down(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  launch(gpu, {Operation::kExpertsDown, "experts_down"}, experts_down_many_kernel<Shape>,
         group_shape<Shape>(gpu.target, args.weights, args.groups, args.max_groups), args);
}
// Calls f(std::integral_constant<int, ...>) for the columns of a group.
template <typename F>
void with_columns(int columns, const F& f) {
  NIBBLE_CHECK(columns == kManyColumns || columns == kMostColumns, "groups of {} pairs", columns);
  columns == kManyColumns ? f(std::integral_constant<int, kManyColumns>())
                          : f(std::integral_constant<int, kMostColumns>());
}
template <typename Shape>
void prepare() {
  allow_shared_bytes(experts_up_many_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(experts_down_many_kernel<Shape>, Shape::kBytes);
}

}  // namespace

void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args) { launch_up<MmaShape>(gpu, args); }
void experts_up_wgmma(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  with_columns(args.groups.size, [&](auto columns) { launch_up<HopperShape<columns()>>(gpu, args); });
}
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  launch_down<MmaShape>(gpu, args);
}
void experts_down_wgmma(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  with_columns(args.groups.size, [&](auto columns) { launch_down<HopperShape<columns()>>(gpu, args); });
}

void prepare_prompt_experts() {
  prepare<MmaShape>();
  if (!device_caps().has_wgmma) return;
  prepare<HopperShape<kManyColumns>>();
  prepare<HopperShape<kMostColumns>>();
}

}  // namespace nibble::cuda
