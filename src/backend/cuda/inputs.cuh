// Activations on their way into shared memory, for a pass of up to 8 tokens.
#pragma once

#include "backend/cuda/stream.cuh"

namespace nibble::cuda {

// The residual stream before a norm. It is stored as its producers leave it: `x`, and what is still to be added to it in
// order: the other part of a matrix product (`x_rest`), or the outputs of the chosen experts.
struct Residual {
  const float* x;        // [T, H]
  const float* x_rest;   // [T, H] or null
  const float* experts;  // [T, num_experts, H] or null
  int num_experts;       // K
  int hidden;            // H

  __device__ float4 four(int token, int i) const {  // elements 4 i ..
    const size_t at = (size_t{1} * token * hidden) / 4 + i;
    float4 sum = reinterpret_cast<const float4*>(x)[at];
    if (x_rest) add(sum, reinterpret_cast<const float4*>(x_rest)[at]);
    if (experts)
      for (int k = 0; k < num_experts; ++k)
        add(sum, reinterpret_cast<const float4*>(experts)[(size_t{1} * token * num_experts + k) * (hidden / 4) + i]);
    return sum;
  }
  __device__ float one(int token, int i) const {
    float sum = x[size_t{1} * token * hidden + i];
    if (x_rest) sum += x_rest[size_t{1} * token * hidden + i];
    if (experts)
      for (int k = 0; k < num_experts; ++k) sum += experts[(size_t{1} * token * num_experts + k) * hidden + i];
    return sum;
  }

 private:
  static __device__ void add(float4& sum, float4 more) {
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
  }
};

struct NormArgs {
  Residual residual;
  const float* weights;  // [H]
  float eps;
};

inline constexpr int kMaxFours{4};  // of a thread: H up to 4 * 4 * kThreads = 8192

__device__ inline uint2 four_bf16(float4 v) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(v.x, v.y), high = __floats2bfloat162_rn(v.z, v.w);
  return make_uint2(reinterpret_cast<const uint32_t&>(low), reinterpret_cast<const uint32_t&>(high));
}

// bfloat16 times a power of two that keeps it in range: exact.
__device__ inline uint32_t scaled_pair(uint32_t pair, float scale) {
  const auto values = reinterpret_cast<const __nv_bfloat162&>(pair);
  const __nv_bfloat162 scaled = __floats2bfloat162_rn(__low2float(values) * scale, __high2float(values) * scale);
  return reinterpret_cast<const uint32_t&>(scaled);
}

// to[column] = bf16(norm of the row) for columns tokens[0..count); returns with the block in step. `visit(column, i, x, normed)`
// sees every four elements of x and of the result. All threads take part.
template <typename TokenAt, typename Visit>
__device__ void load_normed(const NormArgs& args, int count, const TokenAt& token_at, float scale, __nv_bfloat16* to,
                            int stride, const Visit& visit) {
  __shared__ float sums[2][kWarps];
  const int num_fours = args.residual.hidden / 4;
  for (int column = 0; column < count; ++column) {
    const int token = token_at(column);
    float4 x[kMaxFours];
    float squares = 0;
#pragma unroll
    for (int n = 0; n < kMaxFours; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      x[n] = i < num_fours ? args.residual.four(token, i) : make_float4(0, 0, 0, 0);
      squares += x[n].x * x[n].x + x[n].y * x[n].y + x[n].z * x[n].z + x[n].w * x[n].w;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
    float* warp_sums = sums[column % 2];  // of the column before, others may still be read
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = squares;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp];
    const float factor = rsqrtf(sum / static_cast<float>(args.residual.hidden) + args.eps);
#pragma unroll
    for (int n = 0; n < kMaxFours; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (i < num_fours) {
        const float4 g = reinterpret_cast<const float4*>(args.weights)[i];
        uint2 normed = four_bf16({x[n].x * factor * g.x, x[n].y * factor * g.y, x[n].z * factor * g.z, x[n].w * factor * g.w});
        visit(column, i, x[n], normed);
        if (scale != 1) normed = {scaled_pair(normed.x, scale), scaled_pair(normed.y, scale)};
        reinterpret_cast<uint2*>(to + column * stride)[i] = normed;
      } else if (4 * i < padded_cols(args.residual.hidden)) {
        reinterpret_cast<uint2*>(to + column * stride)[i] = make_uint2(0, 0);
      }
    }
  }
  __syncthreads();
}

// to[column] = row row_at(column) of a matrix of bfloat16 [., cols]; returns with the block in step.
template <typename RowAt>
__device__ void load_rows(const __nv_bfloat16* from, int cols, int count, const RowAt& row_at, float scale,
                          __nv_bfloat16* to, int stride) {
  const int num_fours = padded_cols(cols) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < count * num_fours; i += kThreads) {
    const int column = i / num_fours, four = i % num_fours;
    uint2 values = make_uint2(0, 0);
    if (4 * four < cols) values = reinterpret_cast<const uint2*>(from + size_t{1} * row_at(column) * cols)[four];
    if (scale != 1) values = {scaled_pair(values.x, scale), scaled_pair(values.y, scale)};
    reinterpret_cast<uint2*>(to + column * stride)[four] = values;
  }
  __syncthreads();
}

}  // namespace nibble::cuda
