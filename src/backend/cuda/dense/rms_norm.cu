#include "backend/cuda/dense/args.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/normed_rows.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/store_block.cuh"

namespace nibble::cuda {
namespace {

constexpr int kWarps{16}, kThreads{32 * kWarps};

using NormRow = __nv_bfloat16[kMaxHidden];
// Normalises this CTA's token. Stores the normalised row in global memory and, padded with zeros to whole
// tiles, in the shared-memory array `row`.
template <int ahead>
__device__ void rms_norm_token(const RmsNormArgs& args, const Timestamps& timestamps, NormRow& row) {
  const int token = static_cast<int>(blockIdx.x), hidden = args.norm.residual.hidden;
  const NormWeights<kWarps, ahead> norm_weights(args.norm.weights, hidden);
  wait_for_predecessor(timestamps);
  let_successor_start();
  // args.rows is read after the wait, because the previous kernel may be embed, which copies args.rows.
  const int from = args.rows ? args.rows[token] : token;
  const NormedRows out{args.normed.data, hidden, args.normed.image_rows};
  norm_weights.load(
      args.norm, [&](int) { return from; }, {row, activation_stride(hidden), 1},
      [&](int, int i, float4 x, uint2 normed) {
        if (args.x) reinterpret_cast<float4*>(args.x)[size_t{1} * token * (hidden / 4) + i] = x;
        out.store(token, i, normed);
      });
  out.pad(token);
}

// Each CTA handles one token. If there are more tokens than SMs, two CTAs share an SM: one can load while
// the other computes. Each of the two has half the registers, so it loads half the data at once (`ahead`).
template <int ctas>
__global__ void __launch_bounds__(kThreads, ctas)
    rms_norm_kernel(const __grid_constant__ RmsNormArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ __align__(16) NormRow row;
  rms_norm_token<2 / ctas>(args, timestamps, row);
}

template <BlockFormat format>
__global__ void __launch_bounds__(kThreads, 1)
    rms_norm_blocks_kernel(const __grid_constant__ RmsNormArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  __shared__ __align__(16) NormRow row;
  rms_norm_token<1>(args, timestamps, row);
  const int num_eights = padded_cols(args.norm.residual.hidden) / 8, eight = static_cast<int>(threadIdx.x);
  // Each thread stores at most eight elements.
  static_assert(sizeof(NormRow) / sizeof(row[0]) <= 8 * kThreads);
  store_eight<format>(args.blocks, static_cast<int>(blockIdx.x), eight, eight < num_eights, row + 8 * eight);
}

}  // namespace

void rms_norm(const LaunchContext& gpu, const RmsNormArgs& args) {
  const LaunchShape shape{dim3(static_cast<unsigned>(args.num_tokens)), kThreads};
  if (args.blocks.codes)
    with_block_format(args.blocks.format, [&](auto format) {
      launch(gpu, {Operation::kRmsNorm, "rms_norm"}, rms_norm_blocks_kernel<format()>, shape, args);
    });
  else
    launch(gpu, {Operation::kRmsNorm, "rms_norm"},
           args.num_tokens > gpu.target.num_multiprocessors ? rms_norm_kernel<2> : rms_norm_kernel<1>, shape,
           args);
}

void prepare_rms_norm() {
  prefer_shared_memory(rms_norm_kernel<1>);
  prefer_shared_memory(rms_norm_kernel<2>);
  for (const BlockFormat each : kBlockFormats)
    with_block_format(each, [](auto format) { prefer_shared_memory(rms_norm_blocks_kernel<format()>); });
}

}  // namespace nibble::cuda
