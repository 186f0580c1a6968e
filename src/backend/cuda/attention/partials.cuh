// The partial softmaxes of a row's chunks, which CTAs of attend_rows() (rows.cu) exchange in global memory.
// If a row has many chunks, several CTAs merge them, one head at a time, from a mailbox that they poll
// (join_head()). Otherwise, or if the mailbox is too small or not all CTAs are resident, the last CTA to
// finish merges all chunks (join_chunks()).
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/page.cuh"
#include "backend/cuda/pipeline/mailbox.cuh"

namespace nibble::cuda {

inline constexpr int kAttendWarps{kChunkPages};  // each warp takes one page of a chunk
inline constexpr int kAttendThreads{32 * kAttendWarps};

// The partial softmax of a chunk in global memory: outputs [8 heads][64 elements], then softmax references R
// [8], then sums of exponentials 2^(score - R) [8].
struct Partial {
  float* data;
  // Returns the address of elements 2 i and 2 i + 1 of a head's output.
  __device__ float2& two(int head, int i) const {
    return reinterpret_cast<float2*>(data)[head * (kHeadDim / 2) + i];
  }
  __device__ float& reference(int head) const { return data[kMaxGroupHeads * kHeadDim + head]; }
  __device__ float& sum(int head) const { return data[kMaxGroupHeads * (kHeadDim + 1) + head]; }
};

// The merged partial softmax of one head, in the registers of one warp: lane l holds elements 2 l and 2 l + 1
// of the output.
struct Joined {
  float reference{-INFINITY}, sum{0};
  float2 out{0, 0};
  __device__ void add(float factor, float more_sum, const float2& more) {
    sum = fmaf(more_sum, factor, sum);
    out.x = fmaf(more.x, factor, out.x);
    out.y = fmaf(more.y, factor, out.y);
  }
};

// One warp's part of a chunk's partial softmax: elements 8 w to 8 w + 7 of every head's output, where w is
// the warp's number. Lane 4 g + t holds elements 8 w + 2 t and 8 w + 2 t + 1 of head g, and that head's
// softmax reference and sum of exponentials.
struct ChunkSums {
  float reference, sum;
  float2 out;

  __device__ void store(const Partial& to, int group_heads) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = lane / 4;
    if (head >= group_heads) return;
    store_relaxed(&to.two(head, 4 * warp + lane % 4), {as_word(out.x), as_word(out.y)});
    if (warp == 0 && lane % 4 == 0) {
      store_relaxed(&to.reference(head), as_word(reference));
      store_relaxed(&to.sum(head), as_word(sum));
    }
  }
};

// Merges the chunks' partial softmaxes of one head. All of these partial softmaxes must be in memory already.
// One warp calls join_chunks(), in the CTA that finishes last for a row and key/value head. To hide memory
// latency, each lane keeps the outputs of kAhead chunks in registers: after adding the output of chunk c, the
// lane loads that of chunk c + kAhead. `of_row`: partial softmax of the row's first chunk.
template <int kAhead>
__device__ Joined join_chunks(const Partial& of_row, int head, int num_chunks) {
  const int lane = threadIdx.x % 32;
  const float2* const outs = &of_row.two(head, lane);
  constexpr int kOutsOfChunk{kPartialFloats / 2};
  static_assert(32 % kAhead == 0);
  float2 ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (i < num_chunks) ahead[i] = __ldcg(outs + i * kOutsOfChunk);
  // Softmax reference and sum of exponentials of the chunk that this lane holds. In the loop over groups of
  // 32 chunks, lane n holds chunk first_of_32 + n.
  float reference = -INFINITY, sum = 0;
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
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int chunk = first_of_32 + i, later = chunk + kAhead;
      if (chunk >= num_chunks) break;
      joined.add(__shfl_sync(~0u, factor, i), __shfl_sync(~0u, sum_now, i), ahead[i % kAhead]);
      if (later < num_chunks) ahead[i % kAhead] = __ldcg(outs + later * kOutsOfChunk);
    }
  }
  return joined;
}

static_assert(kMaxGroupHeads <= kAttendWarps && kAttendWarps <= 32 && kHeadDim == 2 * 32);

// The partial softmaxes of one head in shared memory, for up to kTileChunks chunks at a time.
inline constexpr int kTileChunks{72};  // the 64 chunks of 16,384 positions fit at once
struct JoinedTile {
  float outs[kTileChunks][kHeadDim];
  float factors[kTileChunks], sums[kTileChunks];
};

// Merges the chunks of one head as they arrive in the mailbox, and zeros the words of these chunks there. All
// threads of the CTA must call it; the first warp gets the result. `of_row`: partial softmax of the row's
// first chunk, in the mailbox.
__device__ inline Joined join_head(JoinedTile& tile, const Partial& of_row, int head, int num_chunks) {
  __shared__ float of_warps[kAttendWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const auto reference_of = [&](int c) { return &of_row.reference(head) + c * kPartialFloats; };
  const auto sum_of = [&](int c) { return &of_row.sum(head) + c * kPartialFloats; };
  Joined joined;
  for (int first = 0; first < num_chunks; first += kTileChunks) {
    const int count = min(kTileChunks, num_chunks - first);
    __syncthreads();  // other warps may still read `tile`, or pages in the same memory (RowResults)
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
