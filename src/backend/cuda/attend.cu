// Attention with sinks over the paged cache. A block takes one row of the step, one key/value head with the query heads that
// share it, and a chunk of pages; its warps take those pages in turn. Scores and outputs are tensor-core products of 16 rows,
// of which the (up to 8) query heads fill the upper half. Which page falls to which warp and chunk, and the order in which their
// results are joined, follows from the row's position alone: so do its bits.
//
// Registers of mma.m16n8k16 for lane (g = lane / 4, t = lane % 4): scores are heads x positions, so that a lane's B registers
// are 16 bytes of the key of position g, and its scores are of head g at positions 2 t, 2 t + 1: which is where the next product,
// heads x D over positions, wants its A registers. Values are read 16 bytes of D for a position; pairs of positions are put
// together from two of them, so that the lane's column n of tile j is element 8 n + j of D.
#include <algorithm>

#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"

namespace nibble::cuda {
namespace {

constexpr int kHeadDim{64};
constexpr int kHalf{kHeadDim / 2};
constexpr int kAttendWarps{4};
constexpr int kAttendThreads{32 * kAttendWarps};
constexpr float kLog2E{1.4426950408889634f};
constexpr float kScoreScale{kLog2E / 8};  // 1 / sqrt(D); exponentials are of base 2
constexpr int kPageElements{kPagePositions * kHeadDim};  // of the keys of one head

__device__ void mma_upper(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(0u), "r"(a2), "r"(0u), "r"(b0), "r"(b1));
}

__device__ uint32_t pair_of(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// Element i and i + D/2 of a head of q or k, the two parts of the product added, turned by the row's position.
struct Turned {
  float first, second;
};
__device__ Turned turn(const float* parts, size_t rest, int i, const RopeInput& rope, int position) {
  const float x1 = parts[i] + parts[rest + i], x2 = parts[i + kHalf] + parts[rest + i + kHalf];
  const float angle = __fmul_rn(static_cast<float>(position), rope.frequencies[i]);
  const float cosine = rope.concentration * cosf(angle), sine = rope.concentration * sinf(angle);
  return {x1 * cosine - x2 * sine, x2 * cosine + x1 * sine};
}

__device__ __nv_bfloat16* page_of(const LayerPages& pages, const StepInput& input, const RowInput& row, int page,
                                  int num_kv_heads, int kv_head) {
  const uint32_t first = pages.is_sliding ? row.sliding_pages : row.full_pages;
  const uint32_t id = input.page_ids[static_cast<uint32_t>(first + static_cast<uint32_t>(page))];
  return pages.data + (size_t{2} * id * num_kv_heads + kv_head) * kPageElements;
}

// The current row's key and value of one head, into the cache: threads 0 to 63 of the block.
__device__ void append_row(const StepInput& input, const float* parts, int row_index, int num_tokens, int num_heads,
                           int num_kv_heads, int kv_head, const RopeInput& rope, const LayerPages& pages) {
  const RowInput row = input.rows[row_index];
  const int width = (num_heads + 2 * num_kv_heads) * kHeadDim;
  const size_t rest = size_t{1} * num_tokens * width;
  const float* k = parts + size_t{1} * row_index * width + (num_heads + kv_head) * kHeadDim;
  const float* v = k + num_kv_heads * kHeadDim;
  __nv_bfloat16* keys = page_of(pages, input, row, row.position / kPagePositions, num_kv_heads, kv_head) +
                        row.position % kPagePositions * kHeadDim;
  __nv_bfloat16* values = keys + size_t{1} * num_kv_heads * kPageElements;
  const int i = threadIdx.x;
  if (i < kHalf) {
    const Turned turned = turn(k, rest, i, rope, row.position);
    keys[i] = __float2bfloat16_rn(turned.first);
    keys[i + kHalf] = __float2bfloat16_rn(turned.second);
  } else if (i < 3 * kHalf) {
    values[i - kHalf] = __float2bfloat16_rn(v[i - kHalf] + v[rest + i - kHalf]);
  }
}

__global__ void __launch_bounds__(kAttendThreads) append_kernel(const __grid_constant__ AppendArgs args) {
  wait_for_predecessor();
  let_successor_start();
  append_row(args.input, args.parts, static_cast<int>(blockIdx.x), args.num_tokens, args.num_heads, args.num_kv_heads,
             static_cast<int>(blockIdx.y), args.rope, args.pages);
}

// What a run of positions adds up to, for head g of a lane: scores' maximum and sum of exponentials (base 2), and the output
// before division: tile j, columns 2 t and 2 t + 1.
struct Online {
  float maximum{-INFINITY}, sum{0};
  float out[8][2]{};

  __device__ void scale_to(float new_maximum) {
    const float factor = maximum == -INFINITY ? 0.0f : exp2f(maximum - new_maximum);
    sum *= factor;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      out[j][0] *= factor;
      out[j][1] *= factor;
    }
    maximum = new_maximum;
  }
};

// One page of 32 positions. `queries`: the lane's A registers of the four 16-wide steps over D. Positions outside of
// [first, last] are not seen; the page has at least one that is.
__device__ void add_page(const __nv_bfloat16* keys, const __nv_bfloat16* values, int page_first, int first, int last,
                         const uint32_t (&queries)[4][2], Online& online) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float scores[4][4]{};  // tile n: positions 8 n + {2 t, 2 t + 1}
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 k = *reinterpret_cast<const uint4*>(keys + (8 * n + g) * kHeadDim + 32 * half + 8 * t);
      mma_upper(scores[n], queries[2 * half][0], queries[2 * half][1], k.x, k.y);
      mma_upper(scores[n], queries[2 * half + 1][0], queries[2 * half + 1][1], k.z, k.w);
    }
  float largest = -INFINITY;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int position = page_first + 8 * n + 2 * t + c;
      scores[n][c] = position < first || position > last ? -INFINITY : scores[n][c] * kScoreScale;
      largest = fmaxf(largest, scores[n][c]);
    }
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  if (largest > online.maximum) online.scale_to(largest);
  float sum = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      scores[n][c] = exp2f(scores[n][c] - online.maximum);
      sum += scores[n][c];
    }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  online.sum += sum;
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // 16 positions: 2 t, 2 t + 1, 2 t + 8, 2 t + 9 are this lane's
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = 16 * half + 8 * (i / 2) + 2 * t + i % 2;
      v[i] = *reinterpret_cast<const uint4*>(values + position * kHeadDim + 8 * g);
      if (page_first + position > last) v[i] = make_uint4(0, 0, 0, 0);  // not written yet: anything, even NaN
    }
    const uint32_t a0 = pair_of(scores[2 * half][0], scores[2 * half][1]);
    const uint32_t a2 = pair_of(scores[2 * half + 1][0], scores[2 * half + 1][1]);
    const uint32_t* words[4] = {&v[0].x, &v[1].x, &v[2].x, &v[3].x};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t selector = j % 2 ? 0x7632u : 0x5410u;
      const uint32_t b0 = __byte_perm(words[0][j / 2], words[1][j / 2], selector);
      const uint32_t b1 = __byte_perm(words[2][j / 2], words[3][j / 2], selector);
      float c[4] = {online.out[j][0], online.out[j][1], 0, 0};
      mma_upper(c, a0, a2, b0, b1);
      online.out[j][0] = c[0];
      online.out[j][1] = c[1];
    }
  }
}

// In the layout of a partial: [8 heads][64], then maxima [8], then sums [8].
struct Partial {
  float* data;
  __device__ float& out(int head, int d) const { return data[head * kHeadDim + d]; }
  __device__ float& maximum(int head) const { return data[kMaxGroupHeads * kHeadDim + head]; }
  __device__ float& sum(int head) const { return data[kMaxGroupHeads * (kHeadDim + 1) + head]; }
};

__device__ void join(float& maximum, float& sum, float& out, float more_maximum, float more_sum, float more_out) {
  const float new_maximum = fmaxf(maximum, more_maximum);
  if (new_maximum == -INFINITY) return;
  const float a = exp2f(maximum - new_maximum), b = exp2f(more_maximum - new_maximum);
  out = out * a + more_out * b;
  sum = sum * a + more_sum * b;
  maximum = new_maximum;
}

__global__ void __launch_bounds__(kAttendThreads) attend_kernel(const __grid_constant__ AttendArgs args) {
  __shared__ __align__(16) __nv_bfloat16 queries[kMaxGroupHeads][kHeadDim];
  __shared__ float partials[kAttendWarps][kPartialFloats];
  __shared__ bool is_last;
  const int kv_head = static_cast<int>(blockIdx.x), chunk = static_cast<int>(blockIdx.y);
  const int launch_row = static_cast<int>(blockIdx.z), row_index = args.first_row + launch_row;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int group_heads = args.num_heads / args.num_kv_heads;

  const RowInput row = args.input.rows[row_index];  // written before the step's first kernel
  const int last = row.position, first = args.window ? max(0, last - args.window + 1) : 0;
  const int first_page = first / kPagePositions, num_pages = last / kPagePositions - first_page + 1;
  const int num_chunks = (num_pages + kChunkPages - 1) / kChunkPages;
  wait_for_predecessor();
  let_successor_start();
  if (chunk >= num_chunks) return;

  const int width = (args.num_heads + 2 * args.num_kv_heads) * kHeadDim;
  const size_t rest = size_t{1} * args.num_tokens * width;
  const float* q = args.parts + size_t{1} * row_index * width + kv_head * group_heads * kHeadDim;
  for (int i = static_cast<int>(threadIdx.x); i < kMaxGroupHeads * kHalf; i += kAttendThreads) {
    const int head = i / kHalf, element = i % kHalf;
    Turned turned{0, 0};
    if (head < group_heads) turned = turn(q + head * kHeadDim, rest, element, args.rope, row.position);
    queries[head][element] = __float2bfloat16_rn(turned.first);
    queries[head][element + kHalf] = __float2bfloat16_rn(turned.second);
  }
  if (args.appends && chunk == num_chunks - 1)
    append_row(args.input, args.parts, row_index, args.num_tokens, args.num_heads, args.num_kv_heads, kv_head,
               args.rope, args.pages);
  __syncthreads();
  uint32_t a[4][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 words = *reinterpret_cast<const uint4*>(&queries[g][32 * half + 8 * t]);
    a[2 * half][0] = words.x;
    a[2 * half][1] = words.y;
    a[2 * half + 1][0] = words.z;
    a[2 * half + 1][1] = words.w;
  }

  Online online;
  const int end = min(num_pages, (chunk + 1) * kChunkPages);
  for (int page = chunk * kChunkPages + warp; page < end; page += kAttendWarps) {
    const __nv_bfloat16* keys = page_of(args.pages, args.input, row, first_page + page, args.num_kv_heads, kv_head);
    add_page(keys, keys + size_t{1} * args.num_kv_heads * kPageElements, (first_page + page) * kPagePositions, first,
             last, a, online);
  }
  const Partial own{partials[warp]};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    own.out(g, 8 * (2 * t) + j) = online.out[j][0];
    own.out(g, 8 * (2 * t + 1) + j) = online.out[j][1];
  }
  if (t == 0) {
    own.maximum(g) = online.maximum;
    own.sum(g) = online.sum;
  }
  __syncthreads();

  const size_t first_partial = (size_t{1} * launch_row * args.num_kv_heads + kv_head) * args.max_chunks;
  const auto finish = [&](int head, int d, float maximum, float sum, float out) {
    const float sink = args.sinks[kv_head * group_heads + head] * kLog2E;
    const float largest = fmaxf(maximum, sink);
    const float factor = exp2f(maximum - largest);
    const float value = out * factor / (sum * factor + exp2f(sink - largest));
    args.out[(size_t{1} * row_index * args.num_heads + kv_head * group_heads + head) * kHeadDim + d] =
        __float2bfloat16_rn(value);
  };
  for (int i = static_cast<int>(threadIdx.x); i < group_heads * kHeadDim; i += kAttendThreads) {
    const int head = i / kHeadDim, d = i % kHeadDim;
    float maximum = -INFINITY, sum = 0, out = 0;
    for (int w = 0; w < kAttendWarps; ++w) {
      const Partial part{partials[w]};
      join(maximum, sum, out, part.maximum(head), part.sum(head), part.out(head, d));
    }
    if (num_chunks == 1) {
      finish(head, d, maximum, sum, out);
    } else {
      const Partial part{args.partials + (first_partial + chunk) * kPartialFloats};
      part.out(head, d) = out;
      if (d == 0) {
        part.maximum(head) = maximum;
        part.sum(head) = sum;
      }
    }
  }
  if (num_chunks == 1) return;

  __threadfence();
  __syncthreads();
  unsigned* ticket = args.tickets + launch_row * args.num_kv_heads + kv_head;
  if (threadIdx.x == 0) is_last = atomicAdd(ticket, 1) == static_cast<unsigned>(num_chunks) - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int i = static_cast<int>(threadIdx.x); i < group_heads * kHeadDim; i += kAttendThreads) {
    const int head = i / kHeadDim, d = i % kHeadDim;
    float maximum = -INFINITY, sum = 0, out = 0;
    for (int c = 0; c < num_chunks; ++c) {
      const Partial part{args.partials + (first_partial + c) * kPartialFloats};
      join(maximum, sum, out, __ldcg(&part.maximum(head)), __ldcg(&part.sum(head)), __ldcg(&part.out(head, d)));
    }
    finish(head, d, maximum, sum, out);
  }
  if (threadIdx.x == 0) *ticket = 0;
}

}  // namespace

void append(Stream stream, const AppendArgs& args) {
  launch(stream, append_kernel,
         {dim3(static_cast<unsigned>(args.num_tokens), static_cast<unsigned>(args.num_kv_heads)), kAttendThreads}, args);
}

void attend(Stream stream, int num_rows, const AttendArgs& args) {
  launch(stream, attend_kernel,
         {dim3(static_cast<unsigned>(args.num_kv_heads), static_cast<unsigned>(args.max_chunks),
               static_cast<unsigned>(num_rows)),
          kAttendThreads},
         args);
}

}  // namespace nibble::cuda
