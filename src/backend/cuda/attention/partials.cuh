// Partial softmaxes of attend_rows() (rows.cu). Warps of a CTA exchange partial softmaxes of pages in shared
// memory; CTAs exchange those of chunks in global memory. If a row has many chunks, several CTAs poll a
// mailbox, and each merges one head at a time (join_head()). If the mailbox is too small or not all CTAs are
// resident, the last CTA to finish merges all chunks.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/pipeline/mailbox.cuh"

namespace nibble::cuda {

inline constexpr int kAttendWarps{kChunkPages};  // one page per warp
inline constexpr int kAttendThreads{32 * kAttendWarps};

// Partial softmaxes of a page or chunk: outputs [8 heads][64], references [8], sums [8]. The float4s of a
// head's outputs are permuted: stores of a page and loads of two floats per lane then have no bank conflicts.
struct Partial {
  float* data;
  __device__ float4& four(int head, int i) const {
    return reinterpret_cast<float4*>(data)[head * (kHeadDim / 4) + (i ^ (i / 8 + head % 2 * 2))];
  }
  __device__ float2& two(int head, int i) const {
    return reinterpret_cast<float2*>(&four(head, i / 2))[i % 2];
  }
  // Index of the element of a head's output that is stored at `place`.
  static __device__ int element_at(int head, int place) {
    const int four = place / 4;
    return 4 * (four ^ (four / 8 + head % 2 * 2)) + place % 4;
  }
  __device__ float& reference(int head) const { return data[kMaxGroupHeads * kHeadDim + head]; }
  __device__ float& sum(int head) const { return data[kMaxGroupHeads * (kHeadDim + 1) + head]; }
};

// The merged partial softmax of one head, in one warp: lane l holds elements 2 l and 2 l + 1 of the output.
struct Joined {
  float reference{-INFINITY}, sum{0};
  float2 out{0, 0};
  __device__ void add(float factor, float more_sum, const float2& more) {
    sum = fmaf(more_sum, factor, sum);
    out.x = fmaf(more.x, factor, out.x);
    out.y = fmaf(more.y, factor, out.y);
  }
};

using PagePartials = float[kAttendWarps][kPartialFloats];  // a chunk's pages, in shared memory

__device__ inline Joined join_pages(PagePartials& of_pages, int head, int num_pages) {  // called by a warp
  // Lane p holds page p's reference in `factor`, later the factor that rescales page p.
  const int lane = threadIdx.x % 32;
  float factor = -INFINITY, sum = 0;
  if (lane < num_pages) {
    const Partial part{of_pages[lane]};
    factor = part.reference(head);
    sum = part.sum(head);
  }
  Joined joined;
  joined.reference = reduce_warp(factor, Maximum());
  factor = power_of_two(factor - joined.reference);
#pragma unroll
  for (int p = 0; p < kAttendWarps; ++p)
    if (p < num_pages)
      joined.add(__shfl_sync(~0u, factor, p), __shfl_sync(~0u, sum, p), Partial{of_pages[p]}.two(head, lane));
  return joined;
}

__device__ inline void store_chunk(const Joined& joined, int head, const Partial& to) {
  const int lane = threadIdx.x % 32;
  store_relaxed(&to.two(head, lane), {as_word(joined.out.x), as_word(joined.out.y)});
  if (lane == 0) {
    store_relaxed(&to.reference(head), as_word(joined.reference));
    store_relaxed(&to.sum(head), as_word(joined.sum));
  }
}

// Merges one head's chunks in a warp of the last CTA of a row and key/value head; all are in memory. Memory
// latency dominates, so a lane loads the values of 32 chunks ahead. `of_row`: the row's first chunk.
__device__ inline Joined join_chunks(const Partial& of_row, int head, int num_chunks) {
  const int lane = threadIdx.x % 32;
  const float2* const outs = &of_row.two(head, lane);
  constexpr int kOutsOfChunk{kPartialFloats / 2};
  float2 ahead[32];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (i < num_chunks) ahead[i] = __ldcg(outs + i * kOutsOfChunk);
  float reference = -INFINITY, sum = 0;  // of the lane's chunk among the current 32
  const auto load_chunk = [&](int c) {
    reference = c < num_chunks ? __ldcg(&of_row.reference(head) + c * kPartialFloats) : -INFINITY;
    sum = c < num_chunks ? __ldcg(&of_row.sum(head) + c * kPartialFloats) : 0;
  };
  load_chunk(lane);
  Joined joined;
  joined.reference = reference;
  for (int c = lane + 32; c < num_chunks; c += 32)
    joined.reference = fmaxf(joined.reference, __ldcg(&of_row.reference(head) + c * kPartialFloats));
  joined.reference = reduce_warp(joined.reference, Maximum());
  for (int first_of_32 = 0; first_of_32 < num_chunks; first_of_32 += 32) {
    const float factor = power_of_two(reference - joined.reference), sum_now = sum;
    load_chunk(first_of_32 + 32 + lane);
    const float2* const later = outs + (first_of_32 + 32) * kOutsOfChunk;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (first_of_32 + i >= num_chunks) break;
      joined.add(__shfl_sync(~0u, factor, i), __shfl_sync(~0u, sum_now, i), ahead[i]);
      if (first_of_32 + 32 + i < num_chunks) ahead[i] = __ldcg(later + i * kOutsOfChunk);
    }
  }
  return joined;
}

static_assert(kMaxGroupHeads <= kAttendWarps && kAttendWarps <= 32 && kHeadDim == 2 * 32);

inline constexpr int kTileChunks{72};  // chunks of a head that JoinedTile holds; 16,384 positions have 64
struct JoinedTile {
  float outs[kTileChunks][kHeadDim];
  float factors[kTileChunks], sums[kTileChunks];
};

// Merges one head's chunks as they arrive in the mailbox, and clears their words. `of_row`: the first chunk.
// All threads call it; lane l of warp 0 gets the elements at places 2 l and 2 l + 1 (Partial::element_at).
__device__ inline Joined join_head(JoinedTile& tile, const Partial& of_row, int head, int num_chunks) {
  __shared__ float of_warps[kAttendWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const auto reference_of = [&](int c) { return &of_row.reference(head) + c * kPartialFloats; };
  const auto sum_of = [&](int c) { return &of_row.sum(head) + c * kPartialFloats; };
  Joined joined;
  for (int first = 0; first < num_chunks; first += kTileChunks) {
    const int count = min(kTileChunks, num_chunks - first);
    __syncthreads();  // other warps may still read the tile, or page results in the same memory (rows.cu)
    constexpr int kFours{kHeadDim / 4},
        kOfThread{(kTileChunks * kFours + kAttendThreads - 1) / kAttendThreads};
    float4 outs[kOfThread]{};
    const auto for_fours = [&](const auto& f) {
#pragma unroll
      for (int n = 0; n < kOfThread; ++n)
        if (const int i = n * kAttendThreads + thread; i / kFours < count)
          f(outs[n], i / kFours, i % kFours,
            reinterpret_cast<float4*>(of_row.data + (first + i / kFours) * kPartialFloats + head * kHeadDim) +
                i % kFours);
    };
    const bool has_chunk = thread < count;
    float reference = has_chunk ? 0 : -INFINITY, sum = has_chunk ? 0 : 1;
    for (bool have_all = false; !have_all;) {
      for_fours([](float4& four, int, int, const float4* from) { reload(four, from); });
      reload(reference, reference_of(first + thread));
      reload(sum, sum_of(first + thread));
      have_all = has_arrived(reference) && has_arrived(sum);
      for_fours([&](const float4& x, int, int, const float4*) { have_all = have_all && has_arrived(x); });
    }
    if (first == 0) {
      float largest = reference;
      for (int c = kTileChunks + thread; c < num_chunks; c += kAttendThreads) {
        float later = 0;
        while (!has_arrived(later)) reload(later, reference_of(c));
        largest = fmaxf(largest, later);
      }
      largest = reduce_warp(largest, Maximum());
      if (thread % 32 == 0) of_warps[thread / 32] = largest;
      __syncthreads();
#pragma unroll
      for (const float of_warp : of_warps) joined.reference = fmaxf(joined.reference, of_warp);
    }
    if (has_chunk) {
      tile.factors[thread] = power_of_two(reference - joined.reference);
      tile.sums[thread] = sum;
      *reference_of(first + thread) = *sum_of(first + thread) = 0;
    }
    for_fours([&](const float4& four, int c, int i, float4* from) {
      reinterpret_cast<float4*>(tile.outs[c])[i] = four;
      *from = {};
    });
    __syncthreads();
    if (thread < 32) {
#pragma unroll 16
      for (int c = 0; c < count; ++c)
        joined.add(tile.factors[c], tile.sums[c], reinterpret_cast<const float2*>(tile.outs[c])[thread]);
    }
  }
  return joined;
}

}  // namespace nibble::cuda
