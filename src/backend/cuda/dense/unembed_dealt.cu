// Computes unembed of few rows, with dynamic scheduling of strips (dealt.cuh). unembed reads more memory than
// any other launch: in gpt-oss, 1.2 GB of bfloat16 weights. For MXFP4 weights dynamic scheduling gains
// nothing, so dense/stream.cu multiplies those.
#include <algorithm>
#include <climits>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/dealt.cuh"
#include "backend/cuda/dense/launch.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/ticket.cuh"
#include "backend/cuda/pipeline/with_warps.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

struct DealtUnembedArgs {
  UnembedArgs of;
  DealtMatrix matrix;
};

template <Layout layout, int warps, int slots>
__global__ void __launch_bounds__(32 * warps, 1)
    unembed_dealt_kernel(const __grid_constant__ DealtUnembedArgs dealt, int pass_columns,
                         Timestamps timestamps) {
  using Hands = DealtHands<layout>;
  // Largest number of units (segments of strips) that the CTA's warps have found in the table but not yet
  // multiplied: those in the slots of the rings, and the unit that each warp prefetches next.
  constexpr int kMostAhead{(slots + 1) * warps};
  static_assert(Hands::most_between_syncs(kMostAhead, 1) > 0);
  const EndTimestamp end_timestamp(timestamps);
  const UnembedArgs& args = dealt.of;
  const Strips& weights = dealt.matrix.hand;
  const int cols = args.norm.residual.hidden;
  const NormWeights<warps> norm_weights(args.norm.weights, cols);
  const CtaMemory shared = cta_memory<layout, warps, slots>(cols, pass_columns);
  const int first_column = static_cast<int>(blockIdx.y) * pass_columns,
            count = min(pass_columns, args.num_rows - first_column);
  __shared__ DealTable table;
  const Hands hands(dealt.matrix, table, args.deals + 1 + blockIdx.y);
  UnitStream<layout, warps, slots, Hands> stream(weights, hands, 0, INT_MAX, shared.ring);
  stream.start_prefetch();
  wait_for_predecessor(timestamps);
  let_successor_start();
  norm_weights.load(
      args.norm, [&](int column) { return args.rows[first_column + column]; },
      {shared.activations, activation_stride(cols), count}, Ignore{});
  stream.fill_ring();

  const int segments = weights.num_segments,
            batch = min(shared.num_partials / (kStripRows * count * segments),
                        Hands::most_between_syncs(kMostAhead, segments));
  int num = batch;
  for (int from = 0; num == batch; from += batch) {
    stream.run((from + batch) * segments, {shared.activations, activation_stride(cols), count},
               shared.partials, from * segments);
    __syncthreads();
    num = hands.num_from(from, batch);
    const BatchSums sums{shared.partials, from * segments, (from + batch) * segments, segments, count};
    for (int i = static_cast<int>(threadIdx.x); i < num * kStripRows * count; i += 32 * warps) {
      const int in_batch = divide(i, count), column = i - in_batch * count,
                strip = from + in_batch / kStripRows, strip_row = in_batch % kStripRows,
                row = hands.strip_of(strip) * kStripRows + strip_row;
      if (row >= weights.rows) continue;
      float sum = sums.sum_segments(strip, strip_row, column);
      if constexpr (layout == Layout::kE4m3)  // rounds the product, as the prefill kernels do
        sum = __fmul_rn(load_now(weights.row_scales + row), sum);
      args.logits[size_t{1} * (first_column + column) * args.row_stride + row] = sum;
    }
    __syncthreads();
  }
  if (is_last_of(args.deals, gridDim.x * gridDim.y) && threadIdx.x < gridDim.y)
    args.deals[1 + threadIdx.x] = 0;
}

template <typename F>
void for_dealt_layouts(const F& f) {
  f(std::integral_constant<Layout, Layout::kBf16>());
  f(std::integral_constant<Layout, Layout::kE4m3>());
}

}  // namespace

void unembed_dealt(const LaunchContext& gpu, const UnembedArgs& args) {
  const Strips& weights = args.weights;
  NIBBLE_CHECK(weights.layout != Layout::kMxfp4, "no kernel deals out MXFP4");
  for_dealt_layouts([&](auto l) {
    constexpr Layout layout = decltype(l)::value;
    if (weights.layout != layout) return;
    const DenseLaunch shape = dealt_launch(gpu.target, weights, args.norm.residual.hidden, args.num_rows);
    NIBBLE_CHECK(shape.num_passes <= kMostDeals, "{} passes", shape.num_passes);
    DealtUnembedArgs launched{args, dealt(weights, shape.num_ctas)};
    launched.matrix.hand = shape.stream.strips(launched.matrix.hand, shape.num_ctas);
    with_warps_for<layout>(shape.stream.of, [&](auto w, auto s) {
      launch(gpu, {Operation::kUnembed, "unembed"},
             unembed_dealt_kernel<layout, decltype(w)::value, decltype(s)::value>,
             alone(shape.stream, {shape.num_ctas, shape.num_passes}), launched, shape.stream.columns);
    });
  });
}

void prepare_unembed_dealt() {
  for (const StreamWarps of : kStreamWarps)
    for_dealt_layouts([&](auto l) {
      constexpr Layout layout = decltype(l)::value;
      with_warps_for<layout>(of, [&](auto w, auto s) {
        allow_all_shared_bytes(unembed_dealt_kernel<layout, decltype(w)::value, decltype(s)::value>);
      });
    });
}

}  // namespace nibble::cuda
