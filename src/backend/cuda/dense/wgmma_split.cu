// qkv and project for a batch, by wgmma. An item, the work that a CTA takes at once, is one segment of four
// strips. So each product of gpt-oss has 720 items to spread over all CTAs. With whole strips, only 80 items
// (qkv) or 45 items (project) would be available for 132 SMs, and each item would take the time of 45 or 64
// tiles. Two CTAs share an SM: while one waits for memory, the other multiplies.
//
// The sums of segments go through memory: 12 MB for 64 tokens, which L2 holds. A second kernel adds them in
// the order of DenseSums (items.cuh): bias and residual stream, then the segments before the strip's cut,
// then the segments after the cut. So the results have the same bits as those of qkv_wgmma() and
// project_wgmma().
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/items.cuh"
#include "backend/cuda/dense/launch.h"
#include "backend/cuda/pipeline/image_columns.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {
namespace {

template <Layout layout>
using SplitShape = ImageShape<layout, kManyColumns, 1, 2>;

struct SplitArgs {
  Strips weights;
  const __nv_bfloat16* activations;  // [T, cols], as an image of image_rows rows
  int image_rows, num_tokens;
  float* sums;  // [segments, T, rows padded to strips], output
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    split_kernel(const __grid_constant__ SplitArgs args, Timestamps timestamps) {
  static_assert(kSplitTokens <= Shape::kColumns);
  const EndTimestamp end_timestamp(timestamps);
  const int width = args.weights.num_strips * kStripRows;
  multiply_items<Shape>(
      timestamps, {args.weights, {args.activations, args.image_rows}},
      SegmentItems<Shape>{args.weights, args.num_tokens}, [&](const SegmentItem& item, int strip) {
        const int first_row = strip * kStripRows + static_cast<int>(threadIdx.x) % 32 / 4;
        const size_t first = size_t{1} * item.segment * args.num_tokens + first_column_of_lane<Shape>();
        float* const to = args.sums + first * width + first_row;
        return [=](const auto& sums) {
          for_each_column<Shape>(item, sums, [&](int column, float upper, float lower) {
            to[column * width] = upper;
            to[column * width + 8] = lower;
          });
        };
      });
}

struct JoinArgs {
  Strips weights;
  const float* sums;  // [segments, T, rows padded to strips], written by split_kernel
  int num_tokens;
  unsigned cuts;  // number of CTAs that share the matrix in kernels for few tokens, see cut_of()
  DenseOutput to;
};
constexpr int kJoinThreads{64};  // small, so that many CTAs run: 192 for 16 tokens and 2,880 matrix rows

constexpr int kFour{4};

// Adds up the sums of segments. Each thread handles four adjacent rows of the matrix for one token. A matrix
// has a multiple of 32 rows (heads of 64 elements, or the hidden size), so all four rows exist or none.
__global__ void __launch_bounds__(kJoinThreads)
    join_kernel(const __grid_constant__ JoinArgs args, Timestamps timestamps) {
  constexpr int kRun{16};  // segments whose sums are requested at once; 4,096 columns have 16 segments
  const EndTimestamp end_timestamp(timestamps);
  const Strips& weights = args.weights;
  const DenseOutput& to = args.to;
  const int row = kFour * static_cast<int>(blockIdx.x * kJoinThreads + threadIdx.x),
            token = static_cast<int>(blockIdx.y), segments = weights.num_segments,
            width = weights.num_strips * kStripRows;
  const bool is_there = row < weights.rows;
  float bias[kFour]{}, scale[kFour]{1, 1, 1, 1};
  int cut = segments;
  if (is_there) {
#pragma unroll
    for (int i = 0; i < kFour; ++i) {
      if (to.bias) bias[i] = load_now(to.bias + row + i);
      if (weights.row_scales) scale[i] = load_now(weights.row_scales + row + i);
    }
    cut = cut_of(weights, row / kStripRows, args.cuts);
  }
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (!is_there) return;

  const size_t at = size_t{1} * token * to.rows + row;
  const float4 x = to.x ? __ldcg(reinterpret_cast<const float4*>(to.x + at)) : float4{};
  const auto* sums = reinterpret_cast<const float4*>(args.sums) + (token * width + row) / kFour;
  const auto stride = static_cast<unsigned>(args.num_tokens * width / kFour);
  float parts[2][kFour];  // sums of the segments before and after the cut
#pragma unroll
  for (int i = 0; i < kFour; ++i) parts[0][i] = parts[1][i] = -0.0f;  // -0 + x is x, even if x is -0
  for (int first = 0; first < segments; first += kRun) {
    float4 more[kRun];
#pragma unroll
    for (int n = 0; n < kRun; ++n)
      if (first + n < segments) more[n] = __ldcg(sums + static_cast<unsigned>(first + n) * stride);
#pragma unroll
    for (int n = 0; n < kRun; ++n) {
      if (first + n >= segments) break;
      const float sum[kFour]{more[n].x, more[n].y, more[n].z, more[n].w};
#pragma unroll
      for (int i = 0; i < kFour; ++i) (first + n < cut ? parts[0][i] : parts[1][i]) += sum[i];
    }
  }
  const float x_of[kFour]{x.x, x.y, x.z, x.w};
  float joined[kFour];
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    // __fmul_rn rounds the product before the addition, as in all kernels. A strip that is not cut has 0 as
    // its second part.
    joined[i] = (to.x ? x_of[i] + bias[i] : bias[i]) + __fmul_rn(scale[i], parts[0][i]);
    joined[i] += cut < segments ? __fmul_rn(scale[i], parts[1][i]) : 0.0f;
  }
  *reinterpret_cast<float4*>(to.out + at) = {joined[0], joined[1], joined[2], joined[3]};
}

void multiply_and_join(const LaunchContext& gpu, const Label& label, const Label& join_label,
                       const SplitArgs& args, const DenseOutput& to) {
  with_layout(args.weights.layout, [&](auto layout) {
    using Shape = SplitShape<layout()>;
    launch(gpu, label, split_kernel<Shape>,
           shape_for_items<Shape>(gpu.target, SegmentItems<Shape>{args.weights, args.num_tokens}.count()),
           args);
  });
  constexpr int kRows{kFour * kJoinThreads};
  const auto chunks = static_cast<unsigned>((args.weights.rows + kRows - 1) / kRows),
             tokens = static_cast<unsigned>(args.num_tokens);
  launch(gpu, join_label, join_kernel, {dim3(chunks, tokens), kJoinThreads},
         JoinArgs{args.weights, args.sums, args.num_tokens, num_ctas_for(gpu.target, args.weights), to});
}

}  // namespace

void qkv_split(const LaunchContext& gpu, const QkvArgs& args) {
  multiply_and_join(gpu, {Operation::kQkv, "qkv"}, {Operation::kQkv, "qkv join"},
                    {args.weights, args.normed.data, args.normed.image_rows, args.num_tokens, args.sums},
                    {args.parts, args.bias, nullptr, args.weights.rows});
}
void project_split(const LaunchContext& gpu, const ProjectArgs& args) {
  multiply_and_join(gpu, {Operation::kProject, "project"}, {Operation::kProject, "project join"},
                    {args.weights, args.attended.data, args.attended.image_rows, args.num_tokens, args.sums},
                    {args.parts, args.bias, args.residual.x, args.residual.hidden});
}

void prepare_split_dense() {
  for_each_layout([](auto layout) {
    using Shape = SplitShape<layout()>;
    allow_shared_bytes(split_kernel<Shape>, Shape::kBytes);
  });
  prefer_shared_memory(join_kernel);
}

}  // namespace nibble::cuda
