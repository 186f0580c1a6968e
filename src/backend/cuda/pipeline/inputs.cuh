// Loads activations into shared memory, for a pass over the weights with up to 8 tokens.
#pragma once

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/ptx/copy.cuh"

namespace nibble::cuda {

// Terms of the residual stream that were requested but not yet added up. `T`: float, or float4 for four
// adjacent elements.
template <typename T>
struct ResidualTerms {
  T x, rest, experts[kMaxExpertsPerToken];
};

struct Residual : ResidualInput {
  __device__ explicit Residual(const ResidualInput& input) : ResidualInput(input) {}

  // Requests the terms of element i of a token or, for float4, of elements 4 i .. 4 i + 3.
  template <typename T>
  __device__ ResidualTerms<T> ask(int token, int i) const {
    const auto at = [this, i](const float* rows, int row) {
      return reinterpret_cast<const T*>(rows + size_t{1} * row * hidden)[i];
    };
    ResidualTerms<T> terms{};
    terms.x = at(x, token);
    if (x_rest) terms.rest = at(x_rest, token);
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) terms.experts[k] = at(experts, token * num_experts + k);
    return terms;
  }
  // Adds the terms, always in the same order.
  template <typename T>
  __device__ T sum(const ResidualTerms<T>& terms) const {
    T sum = terms.x;
    if (x_rest) add(sum, terms.rest);
#pragma unroll
    for (int k = 0; k < kMaxExpertsPerToken; ++k)
      if (experts && k < num_experts) add(sum, terms.experts[k]);
    return sum;
  }

 private:
  static __device__ void add(float& sum, float more) { sum += more; }
  static __device__ void add(float4& sum, float4 more) {
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
  }
};

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

// RMS norm of rows of the residual stream. The constructor prefetches the norm's weights into registers,
// possibly before the activations arrive; load() applies them.
//
// The squares are always summed in the order of a CTA with 16 warps: thread i adds float4s i and i + 512,
// each warp adds the sums of its threads, then the sums of the warps are added in order. In a CTA with 8
// warps, each warp does the work of two of the 16.
//
// The terms of the first `ahead` float4s of a thread are requested at once; terms requested after the first
// have been added up cost one more trip to L2. Each float4 takes 4 registers per term.
template <int warps, int ahead = 2>
class NormWeights {
 public:
  __device__ NormWeights(const float* weights, int hidden) {
#pragma unroll
    for (int n = 0; n < kFours; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (4 * i < hidden) fours_[n] = reinterpret_cast<const float4*>(weights)[i];
    }
  }

  // Stores to[column] = bf16(norm of row token_at(column)) for columns [0, count); synchronizes the CTA at
  // the end. All threads of the CTA take part. Calls `visit(column, i, x, normed)` for every four elements of
  // x and of the result. `at_once` rows are loaded and summed together; with 512 threads, each row takes 8
  // registers per thread, and 8 more for each of its terms in flight.
  template <int at_once = 1, typename TokenAt, typename Visit>
  __device__ void load(const NormInput& args, int count, const TokenAt& token_at, __nv_bfloat16* to,
                       int stride, const Visit& visit) const {
    load<at_once>(args, count, token_at, to, stride, visit, [] {});
  }
  // Calls `when_here` when the last row's terms have arrived.
  template <int at_once = 1, typename TokenAt, typename Visit, typename WhenHere>
  __device__ void load(const NormInput& args, int count, const TokenAt& token_at, __nv_bfloat16* to,
                       int stride, const Visit& visit, const WhenHere& when_here) const {
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
#pragma unroll
      for (int from = 0; from < kFours; from += ahead) {
        ResidualTerms<float4> terms[at_once][ahead];
        const auto for_fours = [&](const auto& f) {
#pragma unroll
          for (int n = 0; n < ahead; ++n) f(n, (from + n) * kThreads + static_cast<int>(threadIdx.x));
        };
        for_each_row([&](int row, int column) {
          const int token = token_at(column);
          for_fours([&](int n, int i) {
            if (i < num_fours) terms[row][n] = residual.ask<float4>(token, i);
          });
        });
        for_each_row([&](int row, int) {
          for_fours([&](int n, int i) {
            x[row][from + n] = i < num_fours ? residual.sum(terms[row][n]) : make_float4(0, 0, 0, 0);
          });
        });
      }
      // Double-buffered: other warps may still read the last rows' sums.
      auto& of_rows = sums[first / at_once % 2];
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
      if (first + at_once >= count) when_here();
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
  static_assert(kFours % ahead == 0);

  float4 fours_[kFours];
};

// Requests rows of a bfloat16 matrix [., cols] at once, copied to shared memory: to[n] = row row_at(n),
// zero-padded to whole tiles. Passing them through registers would serialize them: 8 rows of 4,096 took 5 us
// longer than one. `num_threads` threads of the CTA share the work; `thread`: index of the calling thread
// among them. wait_for_rows() waits for the copies.
template <typename RowAt>
__device__ void ask_for_rows(const __nv_bfloat16* from, int cols, int num_rows, const RowAt& row_at,
                             __nv_bfloat16* to, int stride, int thread, int num_threads) {
  for (int first = 8 * thread; first < padded_cols(cols); first += 8 * num_threads) {
    const bool is_there = first < cols;
    uint32_t at = shared_address(to + first);
    for (int row = 0; row < num_rows; ++row, at += sizeof(*to) * stride)
      copy_16(at, from + size_t{1} * row_at(row) * cols + (is_there ? first : 0), is_there ? 16 : 0);
  }
  end_copies();
}
// Requests consecutive rows.
__device__ inline void ask_for_rows(const __nv_bfloat16* from, int cols, int num_rows, __nv_bfloat16* to,
                                    int stride, int thread, int num_threads) {
  ask_for_rows(
      from, cols, num_rows, [](int row) { return row; }, to, stride, thread, num_threads);
}
// Waits for the rows that ask_for_rows() requested. All threads of the CTA call it; it synchronizes them.
__device__ inline void wait_for_rows() {
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
  // Stores to[column] = row row_at(column); synchronizes the CTA at the end.
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
  static constexpr int kThreads{32 * warps}, kAhead{4096 / 4 / kThreads};  // one row of 4096

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
