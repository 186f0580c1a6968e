// qkv, project and the router's logits of many tokens.
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/bf16_columns.cuh"
#include "backend/cuda/prompt/wgmma_columns.cuh"

namespace nibble::cuda {
namespace {

// Items of a dense matrix: blocks of rows and blocks of tokens. The tokens of the same rows follow each other, so that memory delivers
// each strip once.
template <typename Shape>
struct TokenItems {
  int num_row_blocks, num_tokens;

  __host__ __device__ int num_token_blocks() const {
    return (num_tokens + Shape::kColumns - 1) / Shape::kColumns;
  }
  __host__ __device__ TokenItems(const Strips& weights, int tokens)
      : num_row_blocks(row_blocks<Shape>(weights)), num_tokens(tokens) {}
  __host__ __device__ int count() const { return num_row_blocks * num_token_blocks(); }
  __device__ PromptItem at(int index) const {
    const int token_blocks = num_token_blocks(), first = index % token_blocks * Shape::kColumns;
    return {0, index / token_blocks * Shape::kStrips, first, min(Shape::kColumns, num_tokens - first)};
  }
  __device__ int row(const PromptItem& item, int column) const { return item.first_column + column; }
};

// Multiplies a dense matrix with the step's tokens. begin(row, token, part, is_whole) returns what takes the sums of a row:
// take(i, sum) for token + i.
template <typename Shape, typename Cuts, typename Begin>
__device__ void multiply_tokens(const Timestamps& timestamps, const Strips& weights,
                                const __nv_bfloat16* activations, int cols, int num_tokens, Cuts cuts,
                                const Begin& begin) {
  wait_for_predecessor(timestamps);
  let_successor_start();
  const TokenItems<Shape> items(weights, num_tokens);
  multiply_items<Shape>(
      weights, {activations, cols}, items, cuts,
      [&](const PromptItem& item, int strip, int part, bool is_whole, const auto& sums) {
        const int row = strip * kStripRows + static_cast<int>(threadIdx.x) % 32 / 4;
        const int token = item.first_column + first_column_of_lane<Shape>();
        const auto take = [&](int of_row, const auto& sum_of) {
          if (of_row >= weights.rows) return;
          const float scale = Shape::kLayout == Layout::kE4m3 ? weights.row_scales[of_row] : 1.0f;
          const auto to = begin(of_row, token, part, is_whole);
          for_each_column<Shape>(
              item, sums, [&](int i, float upper, float lower) { to(i, scale * sum_of(upper, lower)); });
        };
        take(row, [](float upper, float) { return upper; });
        take(row + 8, [](float, float lower) { return lower; });
      });
}

// Stores a row's sums in parts [2, T, rows]: `joins` is the term of token + i that joins the first part.
template <typename Joins>
__device__ auto into_parts(float* parts, int num_tokens, int rows, int row, int token, int part,
                           bool is_whole, const Joins& joins) {
  const size_t rest = size_t{1} * num_tokens * rows;
  float* first = parts + size_t{1} * token * rows + row;
  return [=](int i, float sum) {
    if (part) {
      first[rest + i * rows] = sum;
      return;
    }
    first[i * rows] = joins(i) + sum;
    if (is_whole) first[rest + i * rows] = 0;
  };
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    qkv_many_kernel(const __grid_constant__ QkvArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Shape>(timestamps, args.weights, args.normed, args.norm.residual.hidden, args.num_tokens,
                         cuts, [&](int row, int token, int part, bool is_whole) {
                           const float bias = args.bias[row];
                           return into_parts(args.parts, args.num_tokens, args.weights.rows, row, token, part,
                                             is_whole, [=](int) { return bias; });
                         });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    project_many_kernel(const __grid_constant__ ProjectArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int hidden = args.residual.hidden;
  multiply_tokens<Shape>(timestamps, args.weights, args.attended, args.cols, args.num_tokens, cuts,
                         [&](int row, int token, int part, bool is_whole) {
                           const float bias = args.bias[row];
                           const float* x = args.residual.x + size_t{1} * token * hidden + row;
                           return into_parts(args.parts, args.num_tokens, hidden, row, token, part, is_whole,
                                             [=](int i) { return x[i * hidden] + bias; });
                         });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    logits_many_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int num_experts = args.weights.rows;
  multiply_tokens<Shape>(timestamps, args.weights, args.normed, args.norm.residual.hidden, args.num_tokens,
                         NoCuts(), [&](int row, int token, int, bool) {
                           const float bias = args.bias[row];
                           float* logits = args.logits + size_t{1} * token * num_experts + row;
                           return [=](int i, float sum) { logits[i * num_experts] = sum + bias; };
                         });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    unembed_many_kernel(const __grid_constant__ UnembedArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int vocab = args.weights.rows;
  multiply_tokens<Shape>(timestamps, args.weights, args.normed, args.norm.residual.hidden, args.num_rows,
                         NoCuts(), [&](int row, int output, int, bool) {
                           float* logits = args.logits + size_t{1} * output * vocab + row;
                           return [=](int i, float sum) { logits[size_t{1} * i * vocab] = sum; };
                         });
}

template <typename Shape>
LaunchShape shape_for(const Target& target, const Strips& weights, int num_tokens) {
  return shape_for_items<Shape>(target, TokenItems<Shape>(weights, num_tokens).count());
}

template <Layout layout>
using WideShape = WgmmaShape<layout, kMostColumns, 3>;
template <Layout layout>
using NarrowShape = WgmmaShape<layout, kManyColumns, 1>;

template <typename Shape>
void launch_qkv(const LaunchContext& gpu, const QkvArgs& args) {
  launch(gpu, {Operation::kQkv, "qkv"}, qkv_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_tokens), args,
         num_ctas_for(gpu.target, args.weights));
}
template <typename Shape>
void launch_project(const LaunchContext& gpu, const ProjectArgs& args) {
  launch(gpu, {Operation::kProject, "project"}, project_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_tokens), args,
         num_ctas_for(gpu.target, args.weights));
}
template <typename Shape>
void launch_logits(const LaunchContext& gpu, const RouteArgs& args) {
  launch(gpu, {Operation::kRoute, "route"}, logits_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_tokens), args);
}
template <typename Shape>
void launch_unembed(const LaunchContext& gpu, const UnembedArgs& args) {
  launch(gpu, {Operation::kUnembed, "unembed"}, unembed_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_rows), args);
}
template <typename Shape>
void prepare() {
  allow_shared_bytes(unembed_many_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(qkv_many_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(project_many_kernel<Shape>, Shape::kBytes);
}

}  // namespace

void qkv_many(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<PromptShape<layout()>>(gpu, args); });
}
void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<WideShape<layout()>>(gpu, args); });
}
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<NarrowShape<layout()>>(gpu, args); });
}
void project_many(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<PromptShape<layout()>>(gpu, args); });
}
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<WideShape<layout()>>(gpu, args); });
}
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<NarrowShape<layout()>>(gpu, args); });
}
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_unembed<PromptShape<layout()>>(gpu, args); });
}
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_unembed<NarrowShape<layout()>>(gpu, args); });
}
void logits_many(const LaunchContext& gpu, const RouteArgs& args) {
  launch_logits<PromptShape<Layout::kBf16>>(gpu, args);
}
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args) {
  launch_logits<NarrowShape<Layout::kBf16>>(gpu, args);
}

size_t many_shared_bytes(Layout layout) {
  size_t bytes = 0;
  with_layout(layout, [&](auto l) { bytes = PromptShape<l()>::kBytes; });
  return bytes;
}
size_t wgmma_shared_bytes(Layout layout) {
  size_t bytes = 0;
  with_layout(layout, [&](auto l) { bytes = std::max({WideShape<l()>::kBytes, NarrowShape<l()>::kBytes}); });
  return bytes;
}

void prepare_prompt_dense() {
  for_each_layout([&](auto layout) { prepare<PromptShape<layout()>>(); });
  allow_shared_bytes(logits_many_kernel<PromptShape<Layout::kBf16>>, PromptShape<Layout::kBf16>::kBytes);
  if (!device_caps().has_wgmma) return;
  for_each_layout([&](auto layout) {
    prepare<WideShape<layout()>>();
    prepare<NarrowShape<layout()>>();
  });
  allow_shared_bytes(logits_many_kernel<NarrowShape<Layout::kBf16>>, NarrowShape<Layout::kBf16>::kBytes);
}

}  // namespace nibble::cuda
