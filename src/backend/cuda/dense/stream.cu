// Dense matrix products of few tokens: qkv, project, unembed.
#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/launch.h"
#include "backend/cuda/dense/pages_ahead.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/with_warps.h"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {
namespace {

struct StreamedMatrix {
  const Strips& weights;
  int cols, num_tokens, pass_columns;
  bool whole_strips{false};  // whether CTAs share the matrix by whole strips; if false, by segments
  bool spares{false};        // whether each ring prefetches one slot fewer until the previous kernel ends
};

// The functions that a kernel passes to stream_matrix():
//
//  load(to, first column, count, fill)   loads the activations of the pass to shared memory. load() must
//      call fill(), which fills the rings with weights, as soon as that no longer delays the activations
//  prepare(row, column)   called before the products; returns data to add to the sum, such as a bias
//  take(row, column, sum, prepared, part, is_whole)   receives each sum of the CTA's strips. `part`: 1 if
//      the strip begins in another CTA's share, otherwise 0. `is_whole`: whether the CTA has the whole strip
//  at_end()   called after the last weights have arrived, before take() gets their sums
template <typename Load, typename Prepare, typename Take, typename AtEnd>
struct StreamSteps {
  Load load;
  Prepare prepare;
  Take take;
  AtEnd at_end;
};
template <typename Load, typename Prepare, typename Take, typename AtEnd>
StreamSteps(Load, Prepare, Take, AtEnd) -> StreamSteps<Load, Prepare, Take, AtEnd>;

// Computes one pass of a matrix in this CTA: streams the CTA's share of the weights, and passes the sums to
// steps.take().
template <Layout layout, int warps, int slots, bool is_short, typename Steps>
__device__ void stream_matrix(const Timestamps& timestamps, const StreamedMatrix& matrix,
                              const Steps& steps) {
  const Strips& weights = matrix.weights;
  const int pass_columns = matrix.pass_columns;
  const CtaMemory shared = cta_memory<layout, warps, slots>(matrix.cols, pass_columns);
  const int first_column = static_cast<int>(blockIdx.y) * pass_columns;
  const int count = min(pass_columns, matrix.num_tokens - first_column);
  const UnitRange range = share_of(weights, matrix.whole_strips, blockIdx.x);
  UnitStream<layout, warps, slots, OneMatrix, is_short> stream(weights, OneMatrix{weights.data}, range.first,
                                                               range.last, shared.ring);
  constexpr int kFewer{slots_ahead(slots) - 1};
  matrix.spares ? stream.template start_prefetch<kFewer>() : stream.start_prefetch();
  wait_for_predecessor(timestamps);
  let_successor_start();
  steps.load(shared.activations, first_column, count,
             [&] { matrix.spares ? stream.template fill_ring<kFewer>() : stream.fill_ring(); });

  const int segments = weights.num_segments, capacity = shared.num_partials / (kStripRows * count);
  for (int from = range.first; from < range.last;) {
    const int end = batch_end(from, range.last, segments, capacity);
    const int first_strip = from / segments, num_strips = (end - 1) / segments - first_strip + 1;
    const auto row_of = [&](int i) { return first_strip * kStripRows + divide(i, count); };
    const int own = static_cast<int>(threadIdx.x), num_sums = num_strips * kStripRows * count;
    decltype(steps.prepare(0, 0)) ready{};
    float ready_scale = 1;
    const auto scale_of_row = [&](int row) {
      return layout == Layout::kE4m3 ? load_now(weights.row_scales + row) : 1.0f;
    };
    if (own < num_sums && row_of(own) < weights.rows) {
      ready = steps.prepare(row_of(own), first_column + own - divide(own, count) * count);
      ready_scale = scale_of_row(row_of(own));
    }
    stream.run(end, {shared.activations, activation_stride(matrix.cols), count}, shared.partials, from);
    if (end == range.last) steps.at_end();
    __syncthreads();
    const BatchSums sums{shared.partials, from, end, segments, count};
    for (int i = own; i < num_sums; i += 32 * warps) {
      const int row = row_of(i), strip = row / kStripRows, column = i - divide(i, count) * count;
      if (row >= weights.rows) continue;
      float sum = sums.sum_segments(strip, row % kStripRows, column);
      if constexpr (layout == Layout::kE4m3)  // no FMA: prefill also rounds the product before the addition
        sum = __fmul_rn(i == own ? ready_scale : scale_of_row(row), sum);
      const int part = strip * segments < from;
      steps.take(row, first_column + column, sum,
                 i == own ? ready : steps.prepare(row, first_column + column), part,
                 !part && (strip + 1) * segments <= end);
    }
    __syncthreads();
    from = end;
  }
}

// Whether qkv() and project() multiply the tiles of a ring slot in a loop instead of unrolled code (is_short
// of UnitStream). With MXFP4 weights on Hopper, a warp multiplies only one or two units (segments of strips),
// and a unit fills one slot. Unrolled code would run only once or twice, and takes longer to fetch than a
// loop.
template <Layout layout>
inline constexpr bool kIsShort{layout == Layout::kMxfp4};

// Whether qkv() fills its rings as soon as the terms of the residual stream have arrived, before it computes
// norm(x) from these terms. On an H100 this order saved 0.4 us per layer in BF16, but cost 0.3 us in FP8 and
// 0.1 us in MXFP4 (docs/decisions/0016).
template <Layout layout>
inline constexpr bool kFillsUnderNorm{layout == Layout::kBf16};

__device__ float bias_at(const float* bias, int row) { return bias ? bias[row] : 0.0f; }

// The kernel of qkv(). If the CTA's first strip begins in the previous CTA's share, the previous CTA stores
// part 0 of the strip's sums, and this CTA stores part 1. For a strip that is all in its share, a CTA stores
// the sums as part 0, and zeros as part 1.
template <Layout layout, int warps, int slots>
__global__ void __launch_bounds__(32 * warps, 1)
    qkv_kernel(const __grid_constant__ QkvArgs args, int pass_columns, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int cols = args.norm.residual.hidden, rows = args.weights.rows;
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  PageAhead page(args.ahead, args.num_tokens);
  const auto load = [&](__nv_bfloat16* to, int first, int count, const auto& fill) {
    page.read_row();
    norm_weights.load(
        args.norm, [&](int column) { return first + column; }, {to, activation_stride(cols), count}, Ignore{},
        [&] {
          if (kFillsUnderNorm<layout>) fill();
        });
    if (!kFillsUnderNorm<layout>) fill();
    page.read_id();
  };
  const auto prepare = [&](int row, int) { return bias_at(args.bias, row); };
  const auto take = [&](int row, int token, float sum, float bias, int part, bool is_whole) {
    const size_t rest = size_t{1} * args.num_tokens * rows, at = size_t{1} * token * rows + row;
    args.parts[part * rest + at] = part ? sum : sum + bias;
    if (is_whole) args.parts[rest + at] = 0;
  };
  stream_matrix<layout, warps, slots, kIsShort<layout>>(
      timestamps, {args.weights, cols, args.num_tokens, pass_columns},
      StreamSteps{load, prepare, take, [&] { page.prefetch(); }});
}

// Returns whether each ring of project() prefetches one slot fewer until attention has ended. The reason: the
// reads of attention, if it still runs, queue after the prefetches. With FP8 weights and up to 4 chunks per
// row, prefetching less made steps of 1, 2, 4 and 8 rows 0.4, 1.1, 0.8 and 0.4 % faster on an H100; with more
// chunks it gained nothing. With other weights, it made steps of one row slower: by 0.8 % in BF16, and by
// 0.4 % in MXFP4, whose rings have only one slot to spare (docs/decisions/0016).
template <Layout layout, int slots>
__device__ bool spares_attention(int chunks) {
  constexpr int kShort{4};
  return layout == Layout::kE4m3 && slots > 2 && chunks > 0 && chunks <= kShort;
}

struct ProjectTerms {
  ResidualTerms<float> residual;
  float bias;
};

template <Layout layout, int warps, int slots>
__global__ void __launch_bounds__(32 * warps, 1)
    project_kernel(const __grid_constant__ ProjectArgs args, int pass_columns, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Residual residual(args.residual);
  const auto load = [&](__nv_bfloat16* to, int first, int count, const auto& fill) {
    prefetch_rows({args.attended.data + size_t{1} * first * args.cols, args.cols},
                  {to, activation_stride(args.cols), count}, {static_cast<int>(threadIdx.x), 32 * warps});
    fill();
    wait_for_rows();
  };
  const auto prepare = [&](int row, int token) {
    return ProjectTerms{residual.x ? residual.request<float>(token, row) : ResidualTerms<float>{},
                        bias_at(args.bias, row)};
  };
  const auto take = [&](int row, int token, float sum, ProjectTerms terms, int part, bool is_whole) {
    const size_t rest = size_t{1} * args.num_tokens * residual.hidden,
                 at = size_t{1} * token * residual.hidden + row;
    // from_here() keeps the compiler from adding the terms before the products, where the warp would wait for
    // the loads of the terms.
    terms.residual.x = from_here(terms.residual.x);
    const float x_and_bias = (residual.x ? residual.sum(terms.residual) : 0.0f) + terms.bias;
    args.parts[part * rest + at] = part ? sum : x_and_bias + sum;
    if (is_whole) args.parts[rest + at] = 0;
  };
  StreamedMatrix matrix{args.weights, args.cols, args.num_tokens, pass_columns};
  matrix.spares = spares_attention<layout, slots>(args.attended_chunks);
  stream_matrix<layout, warps, slots, kIsShort<layout>>(timestamps, matrix,
                                                        StreamSteps{load, prepare, take, Ignore{}});
}

template <Layout layout, int warps, int slots>
__global__ void __launch_bounds__(32 * warps, 1)
    unembed_kernel(const __grid_constant__ UnembedArgs args, int pass_columns, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int cols = args.norm.residual.hidden;
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const auto load = [&](__nv_bfloat16* to, int first, int count, const auto& fill) {
    norm_weights.load(
        args.norm, [&](int column) { return args.rows[first + column]; },
        {to, activation_stride(cols), count}, Ignore{});
    fill();
  };
  const auto prepare = [](int, int) { return 0.0f; };
  const auto take = [&](int row, int output, float sum, float, int, bool) {
    args.logits[size_t{1} * output * args.row_stride + row] = sum;
  };
  stream_matrix<layout, warps, slots, /*is_short=*/false>(
      timestamps, {args.weights, cols, args.num_rows, pass_columns, /*whole_strips=*/true},
      StreamSteps{load, prepare, take, Ignore{}});
}

template <Layout layout, typename Args, typename Kernel>
void launch_linear(const LaunchContext& gpu, const Label& label, int cols, int num_tokens, Args args,
                   const Kernel& kernel) {
  const Strips& weights = args.weights;
  const DenseLaunch shape = dense_launch(gpu.target, weights, cols, num_tokens);
  args.weights = shape.stream.strips(weights, shape.num_ctas);
  with_warps_for<layout>(shape.stream.of, [&](auto warps, auto slots) {
    launch(gpu, label, kernel(warps, slots), alone(shape.stream, {shape.num_ctas, shape.num_passes}), args,
           shape.stream.columns);
  });
}

}  // namespace

void qkv(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto l) {
    constexpr Layout layout = decltype(l)::value;
    launch_linear<layout>(
        gpu, {Operation::kQkv, "qkv"}, args.norm.residual.hidden, args.num_tokens, args,
        [](auto w, auto s) { return qkv_kernel<layout, decltype(w)::value, decltype(s)::value>; });
  });
}
namespace {
void launch_project(const LaunchContext& gpu, const Label& label, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto l) {
    constexpr Layout layout = decltype(l)::value;
    launch_linear<layout>(gpu, label, args.cols, args.num_tokens, args, [](auto w, auto s) {
      return project_kernel<layout, decltype(w)::value, decltype(s)::value>;
    });
  });
}
}  // namespace

void project(const LaunchContext& gpu, const ProjectArgs& args) {
  ProjectArgs launched = args;
  // Prefetching less (spares_attention()) was measured only on Hopper, so other chips do not use it.
  if (gpu.target.family != Family::kSm90) launched.attended_chunks = 0;
  launch_project(gpu, {Operation::kProject, "project"}, launched);
}
// qkv_normed() runs the kernel of project(), with the normalised rows (args.normed) as activations and
// without a residual stream.
void qkv_normed(const LaunchContext& gpu, const QkvArgs& args) {
  ResidualInput none;
  none.hidden = args.weights.rows;
  launch_project(
      gpu, {Operation::kQkv, "qkv"},
      {args.normed, args.norm.residual.hidden, none, args.weights, args.bias, args.num_tokens, args.parts});
}
void unembed(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto l) {
    constexpr Layout layout = decltype(l)::value;
    launch_linear<layout>(
        gpu, {Operation::kUnembed, "unembed"}, args.norm.residual.hidden, args.num_rows, args,
        [](auto w, auto s) { return unembed_kernel<layout, decltype(w)::value, decltype(s)::value>; });
  });
}

void prepare_linear() {
  for (const StreamWarps of : kStreamWarps) {
    for_each_layout([&](auto l) {
      constexpr Layout layout = decltype(l)::value;
      with_warps_for<layout>(of, [&](auto w, auto s) {
        constexpr int warps = decltype(w)::value, slots = decltype(s)::value;
        allow_all_shared_bytes(qkv_kernel<layout, warps, slots>);
        allow_all_shared_bytes(project_kernel<layout, warps, slots>);
        allow_all_shared_bytes(unembed_kernel<layout, warps, slots>);
      });
    });
  }
}

}  // namespace nibble::cuda
