// Loads the activations of up to 8 tokens to shared memory, where one pass over the weights multiplies them.
#pragma once

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/ptx/copy.cuh"

namespace nibble::cuda {

struct Ignore {
  template <typename... Args>
  __device__ void operator()(const Args&...) const {}
};

struct SharedRows {  // `count` rows in shared memory, `stride` elements apart
  __nv_bfloat16* data;
  int stride, count;
};

// The terms of the residual stream for one element, or for four adjacent elements if T is float4.
template <typename T>
struct ResidualTerms {
  T x, rest, experts[kMaxExpertsPerToken];
};

struct Residual : ResidualInput {
  __device__ explicit Residual(const ResidualInput& input) : ResidualInput(input) {}

  // Loads the terms of element i of a token; if T is float4, of elements 4 i to 4 i + 3.
  template <typename T>
  __device__ ResidualTerms<T> request(int token, int i) const {
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
  // Adds up the terms, always in the same order.
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

// RMS norm of rows of the residual stream. The constructor prefetches the norm's weights into registers:
// construct the object before waiting for the activations. Squares are always summed in the order of 16
// warps: thread i adds float4s i and i + 512, each warp adds its threads' sums, then the warps' sums are
// added in order. If the CTA has 8 warps, each does the work of two. `ahead`: number of float4s of a row that
// a thread loads at the same time. Each float4 takes 4 registers per term of the residual stream; with a
// smaller `ahead`, the thread waits for L2 more often.
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
  // Normalises row token_at(column), and stores it in bfloat16 as row `column` of `to`. All threads of the
  // CTA must call load(), which synchronizes the threads at the end. Calls visit(column, i, x, normed) for
  // elements 4 i to 4 i + 3 of a row, and when_here() once the terms of the last rows have arrived.
  // `at_once`: number of rows that are computed together. With 512 threads, each row takes 8 registers per
  // thread, and 8 more for each of its terms that is being loaded.
  template <int at_once = 1, typename TokenAt, typename Visit, typename WhenHere = Ignore>
  __device__ void load(const NormInput& args, const TokenAt& token_at, SharedRows to, const Visit& visit,
                       const WhenHere& when_here = {}) const {
    __shared__ float sums[2][at_once][kOrderWarps];
    const Residual residual(args.residual);
    const int num_fours = residual.hidden / 4;
    for (int first = 0; first < to.count; first += at_once) {
      Rows<at_once> rows;
      rows.first = first;
      rows.count = to.count;
      rows.num_fours = num_fours;
      rows.load(residual, token_at);
      // The sums are double-buffered, because slower warps may still read the sums of the previous rows.
      auto& of_rows = sums[first / at_once % 2];
      rows.sum_squares(of_rows);
      if (first + at_once >= to.count) when_here();
      __syncthreads();
      store(args, rows, of_rows, to, visit);
    }
    __syncthreads();
  }

 private:
  static constexpr int kOrderWarps{16}, kShares{kOrderWarps / warps};
  static constexpr int kThreads{32 * warps}, kFours{kMaxHidden / 4 / kThreads};
  static_assert(kFours % ahead == 0);

  // Rows that are loaded and summed together: columns `first` to `first` + `at_once` - 1 of the pass, which
  // has `count` columns.
  template <int at_once>
  struct Rows {
    int first, count;
    int num_fours;
    float4 x[at_once][kFours];  // the elements of each row that this thread holds

    template <typename F>
    __device__ void for_each(const F& f) const {
#pragma unroll
      for (int row = 0; row < at_once; ++row)
        if (at_once == 1 || first + row < count) f(row, first + row);
    }
    template <typename TokenAt>
    __device__ void load(const Residual& residual, const TokenAt& token_at) {
#pragma unroll
      for (int from = 0; from < kFours; from += ahead) {
        ResidualTerms<float4> terms[at_once][ahead];
        const auto for_fours = [&](const auto& f) {
#pragma unroll
          for (int n = 0; n < ahead; ++n) f(n, (from + n) * kThreads + static_cast<int>(threadIdx.x));
        };
        for_each([&](int row, int column) {
          const int token = token_at(column);
          for_fours([&](int n, int i) {
            if (i < num_fours) terms[row][n] = residual.request<float4>(token, i);
          });
        });
        for_each([&](int row, int) {
          for_fours([&](int n, int i) {
            x[row][from + n] = i < num_fours ? residual.sum(terms[row][n]) : make_float4(0, 0, 0, 0);
          });
        });
      }
    }
    // Stores 16 partial sums of squares per row, as if 16 warps (kOrderWarps) had computed them: the order of
    // summation then does not depend on the number of warps of the CTA.
    __device__ void sum_squares(float (&sums)[at_once][kOrderWarps]) const {
      for_each([&](int row, int) {
#pragma unroll
        for (int share = 0; share < kShares; ++share) {
          float squares = 0;
#pragma unroll
          for (int n = share; n < kFours; n += kShares)
            squares += x[row][n].x * x[row][n].x + x[row][n].y * x[row][n].y + x[row][n].z * x[row][n].z +
                       x[row][n].w * x[row][n].w;
          squares = reduce_warp(squares, cooperative_groups::plus<float>());
          if (threadIdx.x % 32 == 0) sums[row][share * warps + threadIdx.x / 32] = squares;
        }
      });
    }
  };

  // Normalises rows by means of their sums of squares, stores them, and pads them with zeros to whole tiles.
  template <int at_once, typename Visit>
  __device__ void store(const NormInput& args, const Rows<at_once>& rows,
                        const float (&sums)[at_once][kOrderWarps], SharedRows to, const Visit& visit) const {
    const int hidden = args.residual.hidden;
    rows.for_each([&](int row, int column) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kOrderWarps; ++warp) sum += sums[row][warp];
      const float factor = rsqrtf(sum / static_cast<float>(hidden) + args.eps);
#pragma unroll
      for (int n = 0; n < kFours; ++n) {
        const int i = n * kThreads + static_cast<int>(threadIdx.x);
        const float4 v = rows.x[row][n];
        if (i < rows.num_fours) {
          const float4 g = fours_[n];
          const uint2 normed =
              four_bf16({v.x * factor * g.x, v.y * factor * g.y, v.z * factor * g.z, v.w * factor * g.w});
          visit(column, i, v, normed);
          reinterpret_cast<uint2*>(to.data + column * to.stride)[i] = normed;
        } else if (4 * i < padded_cols(hidden)) {
          reinterpret_cast<uint2*>(to.data + column * to.stride)[i] = make_uint2(0, 0);
        }
      }
    });
  }

  float4 fours_[kFours];
};

struct RowMatrix {  // a row-major matrix in global memory with `cols` elements per row
  const __nv_bfloat16* data;
  int cols;
};
struct WorkThread {  // the calling thread's index among the num_threads threads that share a task
  int index, num_threads;
};

// Starts to copy row row_at(n) of `from` to row n of `to`, for all n < to.count. Rows of `to` are padded with
// zeros to whole tiles. wait_for_rows() waits for the copies. All copies are in flight at once; when rows
// were copied through registers instead, 8 rows of 4,096 elements took 5 us longer than one row.
template <typename RowAt>
__device__ void prefetch_rows(RowMatrix from, const RowAt& row_at, SharedRows to, WorkThread thread) {
  for (int first = 8 * thread.index; first < padded_cols(from.cols); first += 8 * thread.num_threads) {
    const bool is_there = first < from.cols;
    uint32_t at = shared_address(to.data + first);
    for (int row = 0; row < to.count; ++row, at += sizeof(*to.data) * to.stride)
      copy_16(at, from.data + size_t{1} * row_at(row) * from.cols + (is_there ? first : 0),
              is_there ? 16 : 0);
  }
  end_copies();
}
__device__ inline void prefetch_rows(RowMatrix from, SharedRows to, WorkThread thread) {
  prefetch_rows(
      from, [](int row) { return row; }, to, thread);
}
// Waits for the copies of prefetch_rows(), and synchronizes the CTA: all its threads must call
// wait_for_rows().
__device__ inline void wait_for_rows() {
  wait_for_copies<0>();
  __syncthreads();
}

// Prefetches rows of a matrix into registers; store() later writes them to shared memory. Rows that do not
// fit in the registers are loaded by store().
template <int warps>
class RowPrefetch {
 public:
  template <typename RowAt>
  __device__ void prefetch(RowMatrix from, int count, const RowAt& row_at) {
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (i < count * padded_cols(from.cols) / 4) prefetched_[n] = four(from, i, row_at);
    }
  }
  // Stores row row_at(column) of `from` as row `column` of `to`, padded with zeros to whole tiles.
  // Synchronizes the CTA at the end.
  template <typename RowAt>
  __device__ void store(RowMatrix from, const RowAt& row_at, SharedRows to) const {
    const int num_fours = padded_cols(from.cols) / 4;
    const auto put = [&](int i, uint2 values) {
      const int column = i < num_fours ? 0 : i / num_fours;
      reinterpret_cast<uint2*>(to.data + column * to.stride)[i - column * num_fours] = values;
    };
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int i = n * kThreads + static_cast<int>(threadIdx.x);
      if (i < to.count * num_fours) put(i, prefetched_[n]);
    }
    for (int i = kAhead * kThreads + static_cast<int>(threadIdx.x); i < to.count * num_fours; i += kThreads)
      put(i, four(from, i, row_at));
    __syncthreads();
  }

 private:
  // kAhead: number of pieces of 4 elements that a thread prefetches, enough for one row of 4,096 elements.
  static constexpr int kThreads{32 * warps}, kAhead{4096 / 4 / kThreads};

  template <typename RowAt>
  static __device__ uint2 four(RowMatrix from, int i, const RowAt& row_at) {
    const int num_fours = padded_cols(from.cols) / 4, column = i < num_fours ? 0 : i / num_fours;
    const int four = i - column * num_fours;
    if (4 * four >= from.cols) return make_uint2(0, 0);
    return reinterpret_cast<const uint2*>(from.data + size_t{1} * row_at(column) * from.cols)[four];
  }
  uint2 prefetched_[kAhead];
};

}  // namespace nibble::cuda
