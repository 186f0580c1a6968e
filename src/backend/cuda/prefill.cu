// The matrix products of many tokens. A CTA takes 16 strips, one per warp, and 64 columns (tokens, or pairs of a
// group), and reads its weights once for all of those. The order of additions is that of linear.cu and experts.cu:
// segment by segment, and cut into two parts at the same places. So a token gets the same bits from either.
//
// Activations pass through stages in shared memory, one segment of the contraction each: one stage is multiplied
// while the next is being filled. Weights pass through a ring of each warp, as they do for few tokens.
#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/routing.cuh"

namespace nibble::cuda {
namespace {

// Stages of activations. With three, a stage can be filled again one barrier after it was read; beside the rings of larger weights
// there is room for two, which take a second barrier.
template <Layout layout>
inline constexpr int kStages{layout == Layout::kMxfp4 ? 3 : 2};
constexpr int kColumnTiles{kManyColumns / 8};  // column tiles of mma.m16n8k16

constexpr int stage_stride(const Strips& weights) {
  return activation_stride(weights.segment_tiles * kTileCols);
}
template <Layout layout>
constexpr size_t many_bytes(const Strips& weights) {
  return ring_bytes<layout>() +
         sizeof(__nv_bfloat16) * kStages<layout> * kManyColumns * stage_stride(weights);
}

// The activations that a CTA multiplies: selected rows of `activations` [., cols].
struct ManyInput {
  const __nv_bfloat16* activations;
  int cols, count;  // count: number of columns, up to kManyColumns
};

// Streams a warp's strip through its ring.
template <Layout layout>
class StripStream {
 public:
  __device__ StripStream(const Strips& weights, const uint8_t* matrix, int strip, uint8_t* ring)
      : weights_(weights),
        ring_(ring + threadIdx.x / 32 * Ring<layout>::kBytes, /*is_read_once=*/false),
        next_(matrix + size_t{1} * strip * weights.strip_bytes),
        end_(strip < weights.num_strips ? next_ + weights.strip_bytes : next_) {}

  __device__ void start_prefetch() {
#pragma unroll
    for (int slot = 0; slot < Ring<layout>::kSlots; ++slot) prefetch();
  }

  // Adds the products of one segment, whose activations are all in `stage`, to `sums`. The first `column_tiles` tiles of columns are
  // multiplied, without a branch between them: their loads and products overlap. Columns past the input's are multiplied with
  // what the stage happens to hold, and nobody reads their sums.
  template <int column_tiles>
  __device__ void add(int num_tiles, const __nv_bfloat16* stage, float (&sums)[kColumnTiles][4]) {
    const int lane = threadIdx.x % 32, stride = stage_stride(weights_);
    const auto b_of = [&](int n, int tile, int group) {
      return *reinterpret_cast<const uint4*>(stage + (8 * n + lane / 4) * stride + tile * kTileCols +
                                             32 * group + 8 * (lane % 4));
    };
    for (int tile = 0; tile < num_tiles; tile += Ring<layout>::kSlotTiles) {
      const int count = min(Ring<layout>::kSlotTiles, num_tiles - tile);
      const uint8_t* slot = ring_.next();
      for (int i = 0; i < count; ++i)
#pragma unroll
        for (int group = 0; group < 2; ++group) {
          const GroupWeights weights = group_weights<layout>(slot, i, count, group);
#pragma unroll
          for (int n = 0; n < column_tiles; ++n)
            add_group<layout, false>(weights, b_of(n, tile + i, group), sums[n]);
        }
      __syncwarp();
      prefetch();
    }
  }

 private:
  __device__ void prefetch() {
    if (next_ < end_) {
      const int left = weights_.num_tiles - next_tile_,
                in_segment = weights_.segment_tiles - next_tile_ % weights_.segment_tiles;
      const int tiles = min(min(left, in_segment), Ring<layout>::kSlotTiles);
      ring_.prefetch(next_, tiles * tile_bytes(layout));
      next_ += tiles * tile_bytes(layout);
      next_tile_ += tiles;
    }
    ring_.end_prefetch();
  }

  const Strips& weights_;
  Ring<layout> ring_;
  const uint8_t *next_, *end_;
  int next_tile_{0};
};

// Loads the activations of a segment into a stage. Each thread copies, and then scales, its own chunks of 16 bytes.
class StageLoader {
 public:
  __device__ StageLoader(const ManyInput& input, const Strips& weights, const int* rows, float scale)
      : input_(input), weights_(weights), rows_(rows), scale_(scale) {}

  __device__ void start_copy(int segment, __nv_bfloat16* stage) const {
    for_each_chunk([&](int column, int chunk) {
      const int col = segment * weights_.segment_tiles * kTileCols + 8 * chunk;
      const bool is_there = col < input_.cols;
      const __nv_bfloat16* from =
          input_.activations + size_t{1} * rows_[column] * input_.cols + (is_there ? col : 0);
      uint4* to = chunk_of(stage, column, chunk);
#if __CUDA_ARCH__ >= 900
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                   "l"(from), "r"(is_there ? 16 : 0)
                   : "memory");
#else  // a plain copy: before sm_90 the ring waits by counting cp.async groups
      *to = is_there ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
#endif
    });
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  // In place of a copy where no segment is left: finish_copy() counts copies.
  __device__ void skip_copy() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  // Waits until this thread's copies have arrived, but for those of the last `later` segments, and scales them.
  template <int later>
  __device__ void finish_copy(__nv_bfloat16* stage) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
#endif
    if (scale_ == 1) return;
    for_each_chunk([&](int column, int chunk) {
      uint4* at = chunk_of(stage, column, chunk);
      const uint4 v = *at;
      *at = {scaled_pair(v.x, scale_), scaled_pair(v.y, scale_), scaled_pair(v.z, scale_),
             scaled_pair(v.w, scale_)};
    });
  }

 private:
  template <typename Visit>
  __device__ void for_each_chunk(const Visit& visit) const {
    const int chunks = weights_.segment_tiles * kTileCols / 8, columns = (input_.count + 7) / 8 * 8;
    for (int i = static_cast<int>(threadIdx.x); i < columns * chunks; i += kThreads)
      visit(i / chunks, i % chunks);
  }
  __device__ uint4* chunk_of(__nv_bfloat16* stage, int column, int chunk) const {
    return reinterpret_cast<uint4*>(stage + column * stage_stride(weights_) + 8 * chunk);
  }

  const ManyInput& input_;
  const Strips& weights_;
  const int* rows_;
  const float scale_;
};

// Multiplies the CTA's strips with its columns. `rows`: the rows of its columns, in shared memory; count rounded up
// to a multiple of 8 are read. `cuts`: how many CTAs share the matrix if it is cut anywhere, 0 if strips are whole.
// take(strip, g, column, upper, lower, part, is_whole) gets the sums of rows g and g + 8 of a strip.
template <Layout layout, typename Take>
__device__ void multiply(const Strips& weights, const uint8_t* matrix, const ManyInput& input,
                         const int* rows, unsigned cuts, StripStream<layout>& stream, const Take& take) {
  extern __shared__ __align__(128) uint8_t memory[];
  auto* stages = reinterpret_cast<__nv_bfloat16*>(memory + ring_bytes<layout>());
  const int stage_elements = kManyColumns * stage_stride(weights);
  const StageLoader loader(input, weights, rows, kActivationScale<layout>);
  const int strip = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), segments = weights.num_segments;
  const int cut = cuts ? cut_of(weights, strip, cuts) : segments;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  float totals[kColumnTiles][4];
  const auto emit = [&](int part, bool is_whole) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (const int column = 8 * n + 2 * t + c; column < input.count)
          take(strip, g, column, kSumScale<layout> * totals[n][c], kSumScale<layout> * totals[n][c + 2], part,
               is_whole);
  };
  constexpr int ahead = kStages<layout> - 1;  // segments that are being copied while one is multiplied
  const auto stage_of = [&](int segment) { return stages + segment % kStages<layout> * stage_elements; };
  const auto start_copy = [&](int segment) {
    if (segment < segments)
      loader.start_copy(segment, stage_of(segment));
    else
      loader.skip_copy();
  };
  for (int segment = 0; segment < ahead; ++segment) start_copy(segment);
  for (int segment = 0; segment < segments; ++segment) {
    __nv_bfloat16* stage = stage_of(segment);
    if constexpr (ahead == 1)
      start_copy(segment + 1);  // no warp reads that stage: all are past the last barrier
    loader.finish_copy<1>(stage);
    __syncthreads();
    if constexpr (ahead == 2)
      start_copy(segment + 2);  // the stage of the segment before, which all warps have multiplied
    if (strip < weights.num_strips) {
      float sums[kColumnTiles][4]{};
      const int num_tiles = min(weights.segment_tiles, weights.num_tiles - segment * weights.segment_tiles);
      if (input.count > 48)
        stream.template add<8>(num_tiles, stage, sums);
      else if (input.count > 32)
        stream.template add<6>(num_tiles, stage, sums);
      else if (input.count > 16)
        stream.template add<4>(num_tiles, stage, sums);
      else
        stream.template add<2>(num_tiles, stage, sums);
      if (segment == cut) emit(0, false);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          totals[n][i] = segment == 0 || segment == cut ? sums[n][i] : totals[n][i] + sums[n][i];
    }
    if constexpr (ahead == 1) __syncthreads();
  }
  if (strip < weights.num_strips) emit(cut < segments, cut == segments);
}

// Multiplies a dense matrix with the CTA's tokens.
template <Layout layout, typename Take>
__device__ void multiply_tokens(const Timestamps& timestamps, const Strips& weights,
                                const __nv_bfloat16* activations, int cols, int num_tokens, unsigned cuts,
                                const Take& take) {
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ int rows[kManyColumns];
  const int first = static_cast<int>(blockIdx.y) * kManyColumns;
  if (threadIdx.x < kManyColumns)
    rows[threadIdx.x] = min(first + static_cast<int>(threadIdx.x), num_tokens - 1);
  StripStream<layout> stream(weights, weights.data, static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32),
                             memory);
  stream.start_prefetch();
  wait_for_predecessor(timestamps);
  let_successor_start();
  __syncthreads();
  multiply<layout>(
      weights, weights.data, {activations, cols, min(kManyColumns, num_tokens - first)}, rows, cuts, stream,
      [&](int strip, int g, int column, float upper, float lower, int part, bool is_whole) {
        const int row = strip * kStripRows + g;
        const auto scale = [&](int of) { return layout == Layout::kE4m3 ? weights.row_scales[of] : 1.0f; };
        if (row < weights.rows) take(row, first + column, scale(row) * upper, part, is_whole);
        if (row + 8 < weights.rows) take(row + 8, first + column, scale(row + 8) * lower, part, is_whole);
      });
}

template <Layout layout>
__global__ void __launch_bounds__(kThreads, 1)
    qkv_many_kernel(const __grid_constant__ QkvArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const int rows = args.weights.rows;
  multiply_tokens<layout>(timestamps, args.weights, args.normed, args.norm.residual.hidden, args.num_tokens,
                          cuts, [&](int row, int token, float sum, int part, bool is_whole) {
                            const size_t rest = size_t{1} * args.num_tokens * rows,
                                         at = size_t{1} * token * rows + row;
                            args.parts[part * rest + at] = part ? sum : sum + args.bias[row];
                            if (is_whole) args.parts[rest + at] = 0;
                          });
}

template <Layout layout>
__global__ void __launch_bounds__(kThreads, 1)
    project_many_kernel(const __grid_constant__ ProjectArgs args, unsigned cuts, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const Residual residual(args.residual);
  multiply_tokens<layout>(timestamps, args.weights, args.attended, args.cols, args.num_tokens, cuts,
                          [&](int row, int token, float sum, int part, bool is_whole) {
                            const size_t rest = size_t{1} * args.num_tokens * residual.hidden,
                                         at = size_t{1} * token * residual.hidden + row;
                            args.parts[part * rest + at] =
                                part ? sum : residual.one(token, row) + args.bias[row] + sum;
                            if (is_whole) args.parts[rest + at] = 0;
                          });
}

__global__ void __launch_bounds__(kThreads, 1)
    logits_many_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_tokens<Layout::kBf16>(timestamps, args.weights, args.normed, args.norm.residual.hidden,
                                 args.num_tokens, 0, [&](int row, int token, float sum, int, bool) {
                                   args.logits[size_t{1} * token * args.weights.rows + row] =
                                       sum + args.bias[row];
                                 });
}

// Each warp ranks the experts of one token; then the last CTA groups the pairs.
__global__ void __launch_bounds__(kThreads, 1)
    rank_many_kernel(const __grid_constant__ RouteArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int token = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (token < args.num_tokens) rank_token(args, token);
  if (is_last_cta(args.ticket)) group_pairs(args);
}

// A CTA for each token.
__global__ void __launch_bounds__(kThreads, 1)
    normalise_kernel(const __grid_constant__ NormaliseArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ __align__(16) __nv_bfloat16 unused[kMaxFours * 4 * kThreads];
  const int token = static_cast<int>(blockIdx.x), hidden = args.norm.residual.hidden;
  const NormWeights norm_weights(args.norm.weights, hidden);
  wait_for_predecessor(timestamps);
  let_successor_start();
  norm_weights.load(
      args.norm, 1, [&](int) { return token; }, 1, unused, activation_stride(hidden),
      [&](int, int i, float4 x, uint2 normed) {
        const size_t at = size_t{1} * token * (hidden / 4) + i;
        reinterpret_cast<float4*>(args.x)[at] = x;
        reinterpret_cast<uint2*>(args.normed)[at] = normed;
      });
}

// Multiplies the pairs of a group with their expert's strips; row_of(pair) is the row of `activations`.
template <typename RowOf, typename Take>
__device__ void multiply_group(const Timestamps& timestamps, const Strips& weights, const Groups& groups,
                               const __nv_bfloat16* activations, int cols, const RowOf& row_of,
                               const Take& take) {
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ int rows[kManyColumns], pairs[kManyColumns];
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int index = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  if (index >= __ldcg(groups.count)) return;
  const int expert = __ldcg(groups.expert + index), count = __ldcg(groups.num_pairs + index);
  const uint8_t* matrix = weights.data + expert * weights.matrix_bytes();
  StripStream<Layout::kMxfp4> stream(weights, matrix, static_cast<int>(blockIdx.x) * kWarps + thread / 32,
                                     memory);
  stream.start_prefetch();
  if (thread < kManyColumns) {
    pairs[thread] = __ldcg(groups.pairs + index * groups.size + min(thread, count - 1));
    rows[thread] = row_of(pairs[thread]);
  }
  __syncthreads();
  multiply<Layout::kMxfp4>(weights, matrix, {activations, cols, count}, rows, 0, stream,
                           [&](int strip, int g, int column, float upper, float lower, int, bool) {
                             take(expert, strip, g, pairs[column], upper, lower);
                           });
}

__global__ void __launch_bounds__(kThreads, 1)
    up_many_kernel(const __grid_constant__ UpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  multiply_group(
      timestamps, up.weights, args.groups, args.normed, up.hidden,
      [&](int pair) { return pair / args.experts_per_token; },
      [&](int expert, int strip, int g, int pair, float gate, float linear) {
        const int unit = strip * (kStripRows / 2) + g;
        if (unit >= up.intermediate) return;
        const float2 bias =
            reinterpret_cast<const float2*>(up.bias + size_t{2} * expert * up.intermediate)[unit];
        args.gated[size_t{1} * pair * up.intermediate + unit] =
            __float2bfloat16_rn(swiglu(gate + bias.x, linear + bias.y, up.limit));
      });
}

__global__ void __launch_bounds__(kThreads, 1)
    down_many_kernel(const __grid_constant__ DownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_group(
      timestamps, args.weights, args.groups, args.gated, args.intermediate, [](int pair) { return pair; },
      [&](int expert, int strip, int g, int pair, float upper, float lower) {
        const float weight = __ldcg(args.groups.weight + pair);
        const int row = strip * kStripRows + g;
        const float* bias = args.bias + size_t{1} * expert * args.hidden;
        float* out = args.out + size_t{1} * pair * args.hidden;
        if (row < args.hidden) out[row] = weight * (upper + bias[row]);
        if (row + 8 < args.hidden) out[row + 8] = weight * (lower + bias[row + 8]);
      });
}

dim3 grid_for(const Strips& weights, int num_columns) {
  return {static_cast<unsigned>((weights.num_strips + kWarps - 1) / kWarps),
          static_cast<unsigned>((num_columns + kManyColumns - 1) / kManyColumns)};
}

template <Layout layout, typename Args>
void launch_dense(const LaunchContext& gpu, const Label& label, void (*kernel)(Args, unsigned, Timestamps),
                  const Args& args) {
  launch(gpu, label, kernel,
         {grid_for(args.weights, args.num_tokens), kThreads, many_bytes<layout>(args.weights)}, args,
         num_ctas_for(gpu.target, args.weights));
}

}  // namespace

void normalise(const LaunchContext& gpu, const NormaliseArgs& args) {
  launch(gpu, {Operation::kRmsNorm, "normalise"}, normalise_kernel,
         {dim3(static_cast<unsigned>(args.num_tokens)), kThreads}, args);
}
void qkv_many(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) {
    launch_dense<layout()>(gpu, {Operation::kQkv, "qkv"}, qkv_many_kernel<layout()>, args);
  });
}
void project_many(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) {
    launch_dense<layout()>(gpu, {Operation::kProject, "project"}, project_many_kernel<layout()>, args);
  });
}
void route_many(const LaunchContext& gpu, const RouteArgs& args) {
  launch(gpu, {Operation::kRoute, "route"}, logits_many_kernel,
         {grid_for(args.weights, args.num_tokens), kThreads, many_bytes<Layout::kBf16>(args.weights)}, args);
  const auto ctas = static_cast<unsigned>((args.num_tokens + kWarps - 1) / kWarps);
  launch(gpu, {Operation::kRoute, "rank"}, rank_many_kernel,
         {dim3(ctas), kThreads, sizeof(int) * kMaxExperts}, args);
}
void up_many(const LaunchContext& gpu, const UpArgs& args) {
  const Strips& weights = args.up.weights;
  launch(gpu, {Operation::kExpertsUp, "up"}, up_many_kernel,
         {dim3(grid_for(weights, 1).x, static_cast<unsigned>(args.max_groups)), kThreads,
          many_bytes<Layout::kMxfp4>(weights)},
         args);
}
void down_many(const LaunchContext& gpu, const DownArgs& args) {
  launch(gpu, {Operation::kExpertsDown, "down"}, down_many_kernel,
         {dim3(grid_for(args.weights, 1).x, static_cast<unsigned>(args.max_groups)), kThreads,
          many_bytes<Layout::kMxfp4>(args.weights)},
         args);
}

size_t many_shared_bytes(const Strips& weights) {
  size_t bytes = 0;
  with_layout(weights.layout, [&](auto layout) { bytes = many_bytes<layout()>(weights); });
  return bytes;
}

void prepare_prefill() {
  const size_t max_bytes = device_caps().shared_bytes - 1024;  // less what static shared memory takes
  for_each_layout([&](auto layout) {
    allow_shared_bytes(qkv_many_kernel<layout()>, max_bytes);
    allow_shared_bytes(project_many_kernel<layout()>, max_bytes);
  });
  allow_shared_bytes(logits_many_kernel, max_bytes);
  allow_shared_bytes(up_many_kernel, max_bytes);
  allow_shared_bytes(down_many_kernel, max_bytes);
  prefer_shared_memory(rank_many_kernel);
  prefer_shared_memory(normalise_kernel);
}

}  // namespace nibble::cuda
