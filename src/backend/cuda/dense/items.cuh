// Dense matrix products of many tokens (qkv, project, router, unembed). `Shape`: how a CTA multiplies; one of
// the shapes that pipeline/pipeline.cuh lists.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/launch.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/pipeline.cuh"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// The items of a dense product. An item, which one CTA computes, is a block of matrix rows for a block of
// tokens. Items are ordered in bands of up to 2,048 tokens, because L2 holds the activations of a band, but
// not those of, for example, 8,192 tokens. Within a band, items of the same matrix rows are adjacent, so that
// repeated reads of their weights hit L2.
template <typename Shape>
struct TokenItems {
  static constexpr bool kAreReadOnce{false};  // items of several token blocks read the same weights
  static constexpr int kBandBlocks{2048 / Shape::kColumns};
  int num_row_blocks, num_tokens;

  __host__ __device__ int num_token_blocks() const {
    return (num_tokens + Shape::kColumns - 1) / Shape::kColumns;
  }
  __host__ __device__ TokenItems(const Strips& weights, int tokens)
      : num_row_blocks(row_blocks<Shape>(weights)), num_tokens(tokens) {}
  __host__ __device__ int count() const { return num_row_blocks * num_token_blocks(); }
  __device__ PromptItem at(int index) const {
    const int band = index / (kBandBlocks * num_row_blocks),
              in_band = index - band * kBandBlocks * num_row_blocks,
              width = min(kBandBlocks, num_token_blocks() - band * kBandBlocks),
              first = (band * kBandBlocks + in_band % width) * Shape::kColumns;
    return {0, in_band / width * Shape::kStrips, first, min(Shape::kColumns, num_tokens - first), first};
  }
  __device__ int row(const PromptItem& item, int column) const { return item.first_column + column; }
};

// The items of a dense product. An item, which one CTA computes, is one segment of a block of matrix rows,
// for all tokens (at most Shape::kColumns). Segments of the same rows are adjacent in the order of items, so
// CTAs that run at the same time read adjacent weights.
template <typename Shape>
struct SegmentItems {
  static constexpr bool kAreReadOnce{true};
  const Strips& weights;
  int num_tokens;

  __host__ __device__ int count() const { return row_blocks<Shape>(weights) * weights.num_segments; }
  __device__ SegmentItem at(int index) const {
    const auto block = static_cast<int>(weights.by_segments.quotient(static_cast<unsigned>(index)));
    return {{0, block * Shape::kStrips, 0, num_tokens}, index - block * weights.num_segments};
  }
};

template <typename Shape>
constexpr bool takes_blocks() {  // returns whether the shape multiplies block-scaled activations
  if constexpr (Shape::kTakesImage)
    return false;
  else
    return Shape::kScaleBytes > 0;
}

// Returns the activations in the form that the shape's products read. `cols`: number of columns, used only if
// the activations are plain rows.
template <typename Shape>
__device__ typename Shape::Rows rows_of(const Activations& activations, int cols) {
  if constexpr (takes_blocks<Shape>())
    return typename Shape::Rows(activations.blocks);
  else
    return {activations.data, Shape::kTakesImage ? activations.image_rows : cols};
}

// The destination of the results: out[token, row] = (x + bias) + sum. `x` must not overlap `out`, because `x`
// may be read after the first part of a sum was stored in `out`.
struct DenseOutput {
  float* out;         // [T, rows], output
  const float* bias;  // [rows of the matrix] or null: added to the product
  const float* x;     // [T, rows] or null: the residual stream, added to the product
  int rows;           // floats per token in `out`: the matrix's number of rows, or more
};

// Stores a strip's sums in `out`. `cuts`: whether the bits must equal those of the kernels for few tokens. In
// those kernels, two CTAs may share a strip, and each computes one part of the strip's sums. If `cuts` is
// true, such a strip is cut here at the same column, and its two parts are added in the same order. For other
// strips, the second part is 0.
template <typename Shape>
class DenseSums {
 public:
  __device__ DenseSums(const DenseOutput& to, const Strips& weights, const PromptItem& item, int strip,
                       bool cuts)
      : to_(to), cuts_(cuts) {
    const int first_row = strip * kStripRows + static_cast<int>(threadIdx.x) % 32 / 4;
    place_ = size_t{1} * (item.first_column + first_column_of_lane<Shape>()) * to.rows + first_row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 8 * half;
      const bool is_there = row < weights.rows;
      counts_[half] = is_there ? item.columns - first_column_of_lane<Shape>() : 0;
      bias_[half] = is_there && to.bias ? to.bias[row] : 0;
      scale_[half] = is_there && Shape::kLayout == Layout::kE4m3 ? weights.row_scales[row] : 1;
    }
  }

  template <int tiles>
  __device__ void operator()(int part, bool is_whole, const float (&sums)[tiles][4]) const {
    const auto scaled = [&](float sum, int half) {
      // __fmul_rn rounds the product before the addition, as in decoding; an FMA would not.
      return Shape::kLayout == Layout::kE4m3 ? __fmul_rn(scale_[half], sum) : sum;
    };
    // The first of two parts is stored in `out`, without x and bias. Loading x here would make this warp wait
    // in the middle of its strip. With wgmma the other warps of its warpgroup would then wait for this warp,
    // although their strips are not cut at the same tile.
    if (part == 0 && !is_whole)
      return visit(0, tiles, to_.out,
                   [&](int n, int i, int half, float& out) { out = scaled(sums[n][i], half); });
    // Sums are completed kRun tiles (of 8 columns) at a time. All loads for these tiles are issued before the
    // first of their sums is stored, so the warp waits for memory once per kRun tiles.
    constexpr int kRun{Shape::kTakesImage ? tiles : 4};
#pragma unroll
    for (int run = 0; run < tiles; run += kRun) {
      const int end = min(run + kRun, tiles);
      float residuals[kRun][4]{}, first_parts[kRun][4]{};
      if (to_.x)
        visit(run, end, to_.x,
              [&](int n, int i, int, const float& x) { residuals[n - run][i] = __ldcg(&x); });
      if (part)
        visit(run, end, to_.out,
              [&](int n, int i, int, const float& out) { first_parts[n - run][i] = __ldcg(&out); });
      visit(run, end, to_.out, [&](int n, int i, int half, float& out) {
        const float join = to_.x ? residuals[n - run][i] + bias_[half] : bias_[half];
        const float sum = scaled(sums[n][i], half);
        if (part)
          out = join + first_parts[n - run][i] + sum;
        else
          out = cuts_ ? join + sum + 0.0f : join + sum;
      });
    }
  }

 private:
  // Calls f(n, i, half, element) for each existing sum [n][i] of tiles [first, last); `element` is the sum's
  // element of the array [T, rows]. A pointer advances from token to token: when each address was computed
  // from n and i, each of a lane's 64 sums took 20 instructions at the end of an item of qkv
  // (docs/decisions/0014).
  template <typename Element, typename F>
  __device__ __forceinline__ void visit(int first, int last, Element* elements, const F& f) const {
    Element* of_token = elements + place_ + size_t{8} * first * to_.rows;
#pragma unroll
    for (int n = first; n < last; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (8 * n + c < counts_[half]) f(n, 2 * half + c, half, of_token[c * to_.rows + 8 * half]);
      of_token += 8 * to_.rows;
    }
  }

  const DenseOutput& to_;
  const bool cuts_;
  // counts_[half] is for row lane / 4 + 8 * half of the strip: the number of tokens from the lane's first
  // token to the last token of the item; 0 if the matrix does not have this row.
  int counts_[2];
  size_t place_;
  float bias_[2], scale_[2];
};

template <typename Shape>
__device__ void multiply_tokens(const Timestamps& timestamps, const ProductInput<Shape>& input,
                                int num_tokens, const DenseOutput& to) {
  const TokenItems<Shape> items(input.weights, num_tokens);
  multiply_items<Shape>(timestamps, input, items, [&](const PromptItem& item, int strip) {
    return DenseSums<Shape>(to, input.weights, item, strip, input.cuts != 0);
  });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    qkv_many_kernel(const __grid_constant__ QkvArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Shape>(timestamps,
                         {args.weights, rows_of<Shape>(args.normed, args.norm.residual.hidden), cuts},
                         args.num_tokens, {args.parts, args.bias, nullptr, args.weights.rows});
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    project_many_kernel(const __grid_constant__ ProjectArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Shape>(timestamps, {args.weights, rows_of<Shape>(args.attended, args.cols), cuts},
                         args.num_tokens, {args.parts, args.bias, args.residual.x, args.residual.hidden});
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    logits_many_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Shape>(timestamps, {args.weights, rows_of<Shape>(args.normed, args.hidden)},
                         args.num_tokens, {args.logits, args.bias, nullptr, args.weights.rows});
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    unembed_many_kernel(const __grid_constant__ UnembedArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Shape>(timestamps, {args.weights, rows_of<Shape>(args.normed, args.norm.residual.hidden)},
                         args.num_rows, {args.logits, nullptr, nullptr, args.row_stride});
}

template <typename Shape>
LaunchShape shape_for(const Target& target, const Strips& weights, int num_tokens) {
  return shape_for_items<Shape>(target, TokenItems<Shape>(weights, num_tokens).count());
}

// Returns ProductInput::cuts. The bits of block-scaled products differ from those of the kernels for few
// tokens anyway, so their strips are not cut.
template <typename Shape>
unsigned cuts_for(const Target& target, const Strips& weights) {
  return takes_blocks<Shape>() ? 0 : num_ctas_for(target, weights);
}

template <typename Shape>
void launch_qkv(const LaunchContext& gpu, const QkvArgs& args) {
  launch(gpu, {Operation::kQkv, "qkv"}, qkv_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_tokens), args,
         cuts_for<Shape>(gpu.target, args.weights));
}
template <typename Shape>
void launch_project(const LaunchContext& gpu, const ProjectArgs& args) {
  launch(gpu, {Operation::kProject, "project"}, project_many_kernel<Shape>,
         shape_for<Shape>(gpu.target, args.weights, args.num_tokens), args,
         cuts_for<Shape>(gpu.target, args.weights));
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
void prepare_dense() {
  allow_shared_bytes(qkv_many_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(project_many_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(unembed_many_kernel<Shape>, Shape::kBytes);
}

}  // namespace nibble::cuda
