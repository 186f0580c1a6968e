// The experts' matrix products: up (with SwiGLU) and down. A block works for one group: one expert, up to 8 pairs of token and
// slot. A single token makes one group for each of its experts, and they share the multiprocessors.
#include <algorithm>

#include "backend/cuda/inputs.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"

namespace nibble::cuda {
namespace {

constexpr int kPartialUnits{288};  // sums that a block holds before it adds them up, of one column; fewer with more
constexpr size_t kPartialBytes{sizeof(float) * kPartialUnits * kStripRows};
constexpr float kSwigluAlpha{1.702f};

struct ExpertSegmentAt {
  const Strips& weights;
  const uint8_t* matrix;
  __device__ const uint8_t* operator()(int unit) const {
    const int strip = unit / weights.num_segments, segment = unit % weights.num_segments;
    return matrix + strip * weights.strip_bytes() + segment * weights.segment_tiles * tile_bytes(Layout::kMxfp4);
  }
};

struct Shared {
  uint8_t* ring;
  __nv_bfloat16* activations;
  float* partials;
};
__device__ Shared shared_of(int cols, int columns) {
  extern __shared__ __align__(128) uint8_t memory[];
  uint8_t* activations = memory + ring_bytes<Layout::kMxfp4>();
  return {memory, reinterpret_cast<__nv_bfloat16*>(activations),
          reinterpret_cast<float*>(activations + sizeof(__nv_bfloat16) * columns * activation_stride(cols))};
}
// A group has at most as many pairs as there are tokens.
size_t shared_bytes(int cols, int columns) {
  return ring_bytes<Layout::kMxfp4>() + sizeof(__nv_bfloat16) * columns * activation_stride(cols) +
         std::max(kPartialBytes, sizeof(float) * 64 * kStripRows * columns);
}

// Streams this block's strips of the group's expert past its activations; take(strip, finish) where finish(row, column) is a sum.
template <typename Load, typename Take>
__device__ void stream_group(const Strips& weights, const Groups& groups, int cols, int columns, const Load& load,
                             const Take& take) {
  const int group = static_cast<int>(blockIdx.y);
  wait_for_predecessor();
  let_successor_start();
  if (group >= *groups.count) return;
  const int expert = groups.expert[group], count = groups.num_pairs[group], segments = weights.num_segments;
  const auto strip_of = [&](unsigned block) { return static_cast<int>(1ll * weights.num_strips * block / gridDim.x); };
  const int first = strip_of(blockIdx.x) * segments, last = strip_of(blockIdx.x + 1) * segments;
  const Shared shared = shared_of(cols, columns);
  UnitStream<Layout::kMxfp4, ExpertSegmentAt> stream(
      weights, ExpertSegmentAt{weights, weights.data + expert * weights.matrix_bytes()}, first, last, shared.ring);
  stream.start();
  load(shared.activations, group, count);

  const int capacity = max(kPartialUnits / count, 64);
  for (int from = first; from < last;) {
    const int end = batch_end(from, last, segments, capacity);
    stream.run(end, {shared.activations, activation_stride(cols), count}, shared.partials, from);
    __syncthreads();
    take(from, end, expert, group, count, shared.partials);
    __syncthreads();
    from = end;
  }
}

__global__ void __launch_bounds__(kThreads) up_kernel(const __grid_constant__ UpArgs args) {
  constexpr int kUnits{kStripRows / 2};  // gate and up rows of a strip
  const Strips& weights = args.weights;
  stream_group(
      weights, args.groups, args.hidden, min(kMaxColumns, args.num_tokens),
      [&](__nv_bfloat16* to, int group, int count) {
        const int* pairs = args.groups.pairs + group * kMaxColumns;
        load_rows(args.normed, args.hidden, count, [&](int column) { return pairs[column] / args.experts_per_token; },
                  kMxfp4ActivationScale, to, activation_stride(args.hidden));
      },
      [&](int from, int end, int expert, int group, int count, const float* partials) {
        const float* bias = args.bias + size_t{2} * expert * args.intermediate;
        const int first_strip = from / weights.num_segments, num_strips = (end - from) / weights.num_segments;
        for (int i = static_cast<int>(threadIdx.x); i < num_strips * kUnits * count; i += kThreads) {
          const int column = i % count, row = i / count % kUnits, strip = first_strip + i / (count * kUnits);
          const int unit = strip * kUnits + row;
          if (unit >= args.intermediate) continue;
          const auto sum = [&](int strip_row) {
            return kMxfp4SumScale *
                   sum_segments(partials, from, end, strip, weights.num_segments, strip_row, column, count);
          };
          const float gate = fminf(sum(row) + bias[2 * unit], args.limit);
          const float linear = fminf(fmaxf(sum(row + kUnits) + bias[2 * unit + 1], -args.limit), args.limit);
          const float value = gate / (1 + expf(-kSwigluAlpha * gate)) * (linear + 1);
          const int pair = args.groups.pairs[group * kMaxColumns + column];
          args.gated[size_t{1} * pair * args.intermediate + unit] = __float2bfloat16_rn(value);
        }
      });
}

__global__ void __launch_bounds__(kThreads) down_kernel(const __grid_constant__ DownArgs args) {
  const Strips& weights = args.weights;
  stream_group(
      weights, args.groups, args.intermediate, min(kMaxColumns, args.num_tokens),
      [&](__nv_bfloat16* to, int group, int count) {
        const int* pairs = args.groups.pairs + group * kMaxColumns;
        load_rows(args.gated, args.intermediate, count, [&](int column) { return pairs[column]; },
                  kMxfp4ActivationScale, to, activation_stride(args.intermediate));
      },
      [&](int from, int end, int expert, int group, int count, const float* partials) {
        const int first_strip = from / weights.num_segments, num_strips = (end - from) / weights.num_segments;
        for (int i = static_cast<int>(threadIdx.x); i < num_strips * kStripRows * count; i += kThreads) {
          const int column = i % count, strip_row = i / count % kStripRows;
          const int strip = first_strip + i / (count * kStripRows), row = strip * kStripRows + strip_row;
          if (row >= args.hidden) continue;
          const float sum = kMxfp4SumScale *
                            sum_segments(partials, from, end, strip, weights.num_segments, strip_row, column, count);
          const int pair = args.groups.pairs[group * kMaxColumns + column];
          args.out[size_t{1} * pair * args.hidden + row] =
              args.groups.weight[pair] * (sum + args.bias[size_t{1} * expert * args.hidden + row]);
        }
      });
}

// Few groups share the multiprocessors, each at least one strip; of many, each gets the fewest blocks that keep all busy.
unsigned blocks_for(const Strips& weights, int max_groups) {
  const int share = std::max(1, device_info().num_multiprocessors / max_groups);
  return static_cast<unsigned>(std::min(share, weights.num_strips));
}

}  // namespace

void up(Stream stream, const UpArgs& args) {
  launch(stream, up_kernel,
         {dim3(blocks_for(args.weights, args.max_groups), static_cast<unsigned>(args.max_groups)), kThreads,
          shared_bytes(args.hidden, std::min(kMaxColumns, args.num_tokens))},
         args);
}
void down(Stream stream, const DownArgs& args) {
  launch(stream, down_kernel,
         {dim3(blocks_for(args.weights, args.max_groups), static_cast<unsigned>(args.max_groups)), kThreads,
          shared_bytes(args.intermediate, std::min(kMaxColumns, args.num_tokens))},
         args);
}

void prepare_experts() {
  const size_t most = device_info().max_shared_bytes - 1024;
  allow_shared_bytes(up_kernel, most);
  allow_shared_bytes(down_kernel, most);
}

}  // namespace nibble::cuda
