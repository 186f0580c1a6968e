// Loads activations into shared memory, for a pass over the weights with up to 8 tokens.
#pragma once

#include "backend/cuda/decode/stream.cuh"
#include "backend/cuda/device/warp_reduce.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/exp2.cuh"

namespace nibble::cuda {

struct Residual : ResidualInput {
  __device__ explicit Residual(const ResidualInput& input) : ResidualInput(input) {}

  // Elements 4 i .. 4 i + 3. All loads are issued first, then added in order.
  __device__ float4 four(int token, int i) const {
    const size_t at = (size_t{1} * token * hidden) / 4 + i;
    float4 sum = reinterpret_cast<const float4*>(x)[at], rest{}, more[kMaxExpertsPerToken];
    if (x_rest) rest = reinterpret_cast<const float4*>(x_rest)[at];
    const auto* outputs =
        reinterpret_cast<const float4*>(experts) + size_t{1} * token * num_experts * (hidden / 4) + i;
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) more[k] = outputs[k * (hidden / 4)];
    if (x_rest) add(sum, rest);
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) add(sum, more[k]);
    return sum;
  }
  __device__ float one(int token, int i) const {
    float sum = x[size_t{1} * token * hidden + i], rest = 0, more[kMaxExpertsPerToken];
    if (x_rest) rest = x_rest[size_t{1} * token * hidden + i];
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) more[k] = experts[(size_t{1} * token * num_experts + k) * hidden + i];
    if (x_rest) sum += rest;
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) sum += more[k];
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

__device__ inline float swiglu(float gate, float linear, float limit) {
  constexpr float kAlpha{1.702f}, kLog2E{1.4426950408889634f};
  gate = fminf(gate, limit);
  return __fdividef(gate, 1 + exp2_of(-kAlpha * kLog2E * gate)) * (fminf(fmaxf(linear, -limit), limit) + 1);
}

// The widest residual stream that a CTA's threads hold in registers, four floats at a time.
inline constexpr int kMaxHidden{4096};

__device__ inline uint2 four_bf16(float4 v) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(v.x, v.y), high = __floats2bfloat162_rn(v.z, v.w);
  return make_uint2(reinterpret_cast<const uint32_t&>(low), reinterpret_cast<const uint32_t&>(high));
}
__device__ inline float4 four_floats(uint2 four) {
  const auto low = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(four.x)),
             high = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(four.y));
  return make_float4(low.x, low.y, high.x, high.y);
}

// RMS norm of rows of the residual stream. The constructor prefetches the norm's weights into registers, which may
// happen before the activations are there; load() applies them.
//
// The squares are added up in the order of a CTA with 16 warps, whatever CTA does it: thread i of those adds fours i and i + 512, each warp
// its threads' sums, and then the warps follow in order. A CTA with 8 warps does the work of two warps in each.
template <int warps>
class NormWeights {
 public:
  __device__ NormWeights(const float* weights, int hidden) {
#pragma unroll
    for (int n = 0; n < kFours; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (4 * i < hidden) fours_[n] = reinterpret_cast<const float4*>(weights)[i];
    }
  }

  // to[column] = bf16(norm of the row token_at(column)) for columns [0, count); synchronizes the CTA at the end.
  // `visit(column, i, x, normed)` gets every four elements of x and of the result. All threads of the CTA take part. So many rows are loaded,
  // and added up, at once; each takes 8 registers of a thread of 512, and as many for each of its terms that is on its way.
  template <int at_once = 1, typename TokenAt, typename Visit>
  __device__ void load(const NormInput& args, int count, const TokenAt& token_at, __nv_bfloat16* to,
                       int stride, const Visit& visit) const {
    __shared__ float sums[2][at_once][kOrderWarps];
    const Residual residual(args.residual);
    const int num_fours = residual.hidden / 4;
    for (int first = 0; first < count; first += at_once) {
      const auto for_each_row = [&](const auto& f) {
#pragma unroll
        for (int row = 0; row < at_once; ++row)
          if (at_once == 1 || first + row < count) f(row, first + row);
      };
      float4 x[at_once][kFours];
      for_each_row([&](int row, int column) {
        const int token = token_at(column);
#pragma unroll
        for (int n = 0; n < kFours; ++n) {
          const int i = n * kThreads + static_cast<int>(threadIdx.x);
          x[row][n] = i < num_fours ? residual.four(token, i) : make_float4(0, 0, 0, 0);
        }
      });
      auto& of_rows = sums[first / at_once % 2];  // two buffers: other warps may still read the last rows'
      for_each_row([&](int row, int) {
#pragma unroll
        for (int share = 0; share < kShares; ++share) {
          float squares = 0;
#pragma unroll
          for (int n = share; n < kFours; n += kShares)
            squares += x[row][n].x * x[row][n].x + x[row][n].y * x[row][n].y + x[row][n].z * x[row][n].z +
                       x[row][n].w * x[row][n].w;
          squares = reduce_warp(squares, cooperative_groups::plus<float>());
          if (threadIdx.x % 32 == 0) of_rows[row][share * warps + threadIdx.x / 32] = squares;
        }
      });
      __syncthreads();
      for_each_row([&](int row, int column) {
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < kOrderWarps; ++warp) sum += of_rows[row][warp];
        const float factor = rsqrtf(sum / static_cast<float>(residual.hidden) + args.eps);
#pragma unroll
        for (int n = 0; n < kFours; ++n) {
          const int i = n * kThreads + static_cast<int>(threadIdx.x);
          const float4 v = x[row][n];
          if (i < num_fours) {
            const float4 g = fours_[n];
            const uint2 normed =
                four_bf16({v.x * factor * g.x, v.y * factor * g.y, v.z * factor * g.z, v.w * factor * g.w});
            visit(column, i, v, normed);
            reinterpret_cast<uint2*>(to + column * stride)[i] = normed;
          } else if (4 * i < padded_cols(residual.hidden)) {
            reinterpret_cast<uint2*>(to + column * stride)[i] = make_uint2(0, 0);
          }
        }
      });
    }
    __syncthreads();
  }

 private:
  static constexpr int kOrderWarps{16}, kShares{kOrderWarps / warps};
  static constexpr int kThreads{32 * warps}, kFours{kMaxHidden / 4 / kThreads};

  float4 fours_[kFours];
};

// Copies neighbouring rows of a bfloat16 matrix [., cols] to shared memory, all at once: to[row] = row, with zeros up to whole tiles. Rows
// that went through registers came one after the other: 8 rows of 4,096 took 5 us longer than one. Synchronizes the CTA at the end.
template <int warps>
__device__ void copy_rows(const __nv_bfloat16* from, int cols, int num_rows, __nv_bfloat16* to, int stride) {
  const int num_eights = padded_cols(cols) / 8;
  for (int i = static_cast<int>(threadIdx.x); i < num_rows * num_eights; i += 32 * warps) {
    const int row = num_rows == 1 ? 0 : i / num_eights, first = 8 * (i - row * num_eights);
    const bool is_there = first < cols;
    copy_16(shared_address(to + row * stride + first), from + size_t{1} * row * cols + (is_there ? first : 0),
            is_there ? 16 : 0);
  }
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
}

// Prefetches rows of a bfloat16 matrix [., cols] into registers, and stores them to shared memory later.
template <int warps>
class RowPrefetch {
 public:
  template <typename RowAt>
  __device__ void prefetch(const __nv_bfloat16* from, int cols, int count, const RowAt& row_at) {
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (i < count * padded_cols(cols) / 4) prefetched_[n] = four(from, cols, i, row_at);
    }
  }
  // to[column] = row row_at(column); synchronizes the CTA at the end.
  template <typename RowAt>
  __device__ void store(const __nv_bfloat16* from, int cols, int count, const RowAt& row_at,
                        __nv_bfloat16* to, int stride) const {
    const int num_fours = padded_cols(cols) / 4;
    const auto put = [&](int i, uint2 values) {
      const int column = i < num_fours ? 0 : i / num_fours;
      reinterpret_cast<uint2*>(to + column * stride)[i - column * num_fours] = values;
    };
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (i < count * num_fours) put(i, prefetched_[n]);
    }
    for (int i = kAhead * kThreads + static_cast<int>(threadIdx.x); i < count * num_fours; i += kThreads)
      put(i, four(from, cols, i, row_at));
    __syncthreads();
  }

 private:
  static constexpr int kThreads{32 * warps}, kAhead{4096 / 4 / kThreads};  // enough for one row of 4096

  template <typename RowAt>
  static __device__ uint2 four(const __nv_bfloat16* from, int cols, int i, const RowAt& row_at) {
    const int num_fours = padded_cols(cols) / 4, column = i < num_fours ? 0 : i / num_fours;
    const int four = i - column * num_fours;
    if (4 * four >= cols) return make_uint2(0, 0);
    return reinterpret_cast<const uint2*>(from + size_t{1} * row_at(column) * cols)[four];
  }
  uint2 prefetched_[kAhead];
};

}  // namespace nibble::cuda
